//! Starting and ending: what stands in the way is told, with the exit code of a process that ends
//! by it.

use std::time::{Duration, Instant};

use headwater_server::config::Config;
use headwater_server::{RunError, Server};

use crate::support::{Headwater, get};

fn refused(config: Config) -> RunError {
    Server::start(config).map(|_started| ()).expect_err("it must not start")
}

#[test]
fn an_idle_connection_does_not_hold_up_the_end() {
    let drain_timeout = Duration::from_millis(1_500);
    let mut server = Headwater::with(|config| config.drain_timeout = drain_timeout);
    let mut idle: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for connection in &mut idle {
        connection.round(&get("/-/healthz")).expect(200);
    }
    let began = Instant::now();
    server.restart();
    assert!(began.elapsed() < drain_timeout, "it waited for clients that asked nothing");
}

#[test]
fn a_data_directory_in_use_is_told() {
    let server = Headwater::start();
    let error = refused(server.config());
    assert!(matches!(error, RunError::Open(_)), "{error}");
    assert_eq!(error.exit_code(), 2);
    server.send(get("/demo")).expect(200);
}

#[test]
fn where_data_must_exist_none_are_made() {
    let server = Headwater::start();
    let mut config = Config { must_exist: true, ..server.config() };
    // A mount point without its disk: an empty directory, or none.
    let made = config.data_dir.with_extension("unmounted");
    for there in [false, true] {
        config.data_dir.clone_from(&made);
        if there {
            std::fs::create_dir(&made).unwrap();
        }
        let error = refused(config.clone());
        assert!(matches!(error, RunError::Open(_)), "{error}");
        assert_eq!((error.exit_code(), made.exists()), (2, there));
    }
    assert_eq!(std::fs::read_dir(&made).unwrap().count(), 0);
    std::fs::remove_dir(&made).unwrap();
    // Where they are, they are found: it is only in use.
    let error = refused(Config { must_exist: true, ..server.config() });
    let why = std::error::Error::source(&error).expect("a reason").to_string();
    assert!(why.contains("another process"), "{why}");
}

#[test]
fn an_address_in_use_is_told() {
    let (server, spare) = (Headwater::start(), Headwater::start());
    let mut config = spare.config();
    drop(spare);
    config.listen = server.host().parse().unwrap();
    let error = refused(config.clone());
    assert!(matches!(error, RunError::Listen(address, _) if address == config.listen), "{error}");
    assert_eq!(error.exit_code(), 1);
    std::fs::remove_dir_all(config.data_dir).unwrap();
}

#[test]
fn a_first_bucket_that_cannot_be_one_is_told_before_anything_is_touched() {
    let spare = Headwater::start();
    let mut config = spare.config();
    drop(spare);
    config.bucket = Some("No Bucket".into());
    let error = refused(config.clone());
    assert!(matches!(error, RunError::Config(_)), "{error}");
    assert_eq!(error.exit_code(), 2);
    assert!(!config.data_dir.exists());
}
