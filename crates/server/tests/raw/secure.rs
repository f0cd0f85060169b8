//! TLS: who is let in, what is spoken, and that a new certificate disturbs nobody.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_server::Server;
use headwater_server::config::Tls;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::answer;
use crate::child::Process;
use crate::multiplex::{Client, run, until};
use crate::support::{Answer, Headwater, config, eventually, request};

const TEXT: &str = "Content-Type: text/plain\r\n";

/// An authority, and a folder for what it signs.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = config().data_dir.with_file_name("certificates");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// A new certificate under this name.
    fn sign(&self, name: &str) -> Tls {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let certificate = self.folder.join(format!("{name}.pem"));
        let key_file = self.folder.join(format!("{name}.key"));
        fs::write(&certificate, signed.pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        Tls { certificate, key: key_file, client_ca: None }
    }

    /// A client that trusts this authority, with a certificate of its own if there is one.
    fn client(
        &self,
        protocols: &[&str],
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&Tls>,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.ca()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut client = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let certificate = CertificateDer::from_pem_file(&own.certificate).unwrap();
                let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        client.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(client)
    }

    fn any_client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        self.client(protocols, &[&TLS12, &TLS13], None)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        fs::remove_dir_all(self.folder.parent().unwrap()).unwrap();
    }
}

/// A secured connection.
struct Secure(StreamOwned<ClientConnection, TcpStream>);

impl Secure {
    fn open(address: SocketAddr, client: Arc<ClientConfig>) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        Self(StreamOwned::new(ClientConnection::new(client, name).unwrap(), socket))
    }

    /// An answer, or why there is none.
    fn try_ask(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<Answer> {
        self.0.write_all(&request(method, path, TEXT, body))?;
        self.0.flush()?;
        // What refuses a client comes before any answer.
        self.0.conn.complete_io(&mut self.0.sock)?;
        Ok(answer::read(&mut self.0, method).expect("an answer"))
    }

    fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Answer {
        self.try_ask(method, path, body).unwrap()
    }

    fn until(&mut self, end: &str) -> String {
        let (mut all, mut byte) = (Vec::new(), [0]);
        while !all.ends_with(end.as_bytes()) {
            self.0.read_exact(&mut byte).unwrap();
            all.push(byte[0]);
        }
        String::from_utf8(all).unwrap()
    }

    /// The certificate that the server has shown.
    fn shown(&self) -> Vec<u8> {
        self.0.conn.peer_certificates().unwrap()[0].to_vec()
    }
}

fn der(file: &Path) -> Vec<u8> {
    CertificateDer::from_pem_file(file).unwrap().to_vec()
}

#[test]
fn a_client_speaks_what_it_has_chosen_in_either_version_of_tls() {
    let authority = Authority::new();
    let server = Headwater::with(|config| config.tls = Some(authority.sign("server")));
    for version in [&TLS12, &TLS13] {
        for protocols in [&["http/1.1"][..], &[]] {
            let client = authority.client(protocols, &[version], None);
            let mut secure = Secure::open(server.address(), client);
            secure.ask("GET", "/demo", b"").expect(200);
            secure.ask("GET", "/demo", b"").expect(200);
            let chosen = secure.0.conn.alpn_protocol();
            assert_eq!(chosen, protocols.first().map(|name| name.as_bytes()));
        }
        run(async {
            let client = authority.client(&["h2", "http/1.1"], &[version], None);
            let mut client = Box::pin(http_2(server.address(), client)).await;
            let created =
                client.ask("PUT", "/demo/x", &[("content-type", "text/plain")], b"").await;
            assert!(created.status == 201 || created.status == 200, "{created:?}");
            if let Some(location) = created.headers.get("location") {
                assert!(location.to_str().unwrap().starts_with("https://"), "{location:?}");
            }
        });
    }
    let refused = authority.any_client(&["h3"]);
    assert!(Secure::open(server.address(), refused).try_ask("GET", "/demo", b"").is_err());
}

async fn http_2(address: SocketAddr, client: Arc<ClientConfig>) -> Client {
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let secure = TlsConnector::from(client).connect(name, socket).await.unwrap();
    assert_eq!(secure.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    Box::pin(Client::over(secure, "localhost")).await
}

#[test]
fn a_new_certificate_is_shown_to_new_connections_and_a_bad_one_to_nobody() {
    let authority = Authority::new();
    let server = Headwater::with(|config| config.tls = Some(authority.sign("server")));
    let file = authority.folder.join("server.pem");
    let first = der(&file);
    let mut old = Secure::open(server.address(), authority.any_client(&[]));
    old.ask("PUT", "/demo/x", b"text").expect(201);
    assert_eq!(old.shown(), first);
    let shown = || {
        let mut new = Secure::open(server.address(), authority.any_client(&[]));
        new.ask("GET", "/demo/x", b"").expect(200);
        new.shown()
    };
    authority.sign("server");
    let second = der(&file);
    assert_ne!(first, second);
    eventually("it is shown", Duration::from_secs(20), || shown() == second);
    old.ask("GET", "/demo/x", b"").expect(200);
    // Longer than it takes to look at the files.
    fs::write(&file, "no certificate").unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        assert_eq!(shown(), second);
        std::thread::sleep(Duration::from_millis(200));
    }
    authority.sign("server");
    let third = der(&file);
    eventually("the next one is shown", Duration::from_secs(20), || shown() == third);
}

#[test]
fn a_signal_makes_the_files_be_read_at_once() {
    let authority = Authority::new();
    let tls = authority.sign("server");
    let settings = format!("cert={} key={}", tls.certificate.display(), tls.key.display());
    let server = Process::start(&settings, "");
    for _ in 0..3 {
        authority.sign("server");
        let new = der(&tls.certificate);
        server.signal("-HUP");
        let begun = Instant::now();
        eventually("it is shown", Duration::from_secs(10), || {
            let mut secure = Secure::open(server.address(), authority.any_client(&[]));
            secure.ask("GET", "/demo", b"").expect(200);
            secure.shown() == new
        });
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_client_without_a_certificate_of_the_authority_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Headwater::with(|config| {
        config.tls = Some(Tls { client_ca: Some(authority.ca()), ..authority.sign("server") });
    });
    let own = authority.sign("client");
    let versions = [&TLS12, &TLS13];
    for version in versions {
        let client = |own| Secure::open(server.address(), authority.client(&[], &[version], own));
        client(Some(&own)).ask("GET", "/demo", b"").expect(200);
        assert!(client(None).try_ask("GET", "/demo", b"").is_err());
        assert!(client(Some(&other.sign("client"))).try_ask("GET", "/demo", b"").is_err());
    }
}

#[test]
fn files_that_are_of_no_use_are_named_and_the_server_does_not_start() {
    let authority = Authority::new();
    let good = authority.sign("server");
    let none = authority.folder.join("none.pem");
    let empty = authority.folder.join("empty.pem");
    fs::write(&empty, "nothing\n").unwrap();
    let other = authority.sign("other");
    let with = |change: &dyn Fn(&mut Tls)| {
        let mut tls = good.clone();
        change(&mut tls);
        tls
    };
    let cases = [
        (with(&|tls| tls.certificate.clone_from(&none)), &none, "cannot be read"),
        (with(&|tls| tls.certificate.clone_from(&empty)), &empty, "no certificate"),
        (with(&|tls| tls.key.clone_from(&none)), &none, "cannot be read"),
        (with(&|tls| tls.key.clone_from(&empty)), &empty, "no private key"),
        (with(&|tls| tls.key.clone_from(&other.key)), &other.key, "not that of the certificate"),
        (with(&|tls| tls.client_ca = Some(empty.clone())), &empty, "no certificate"),
    ];
    for (tls, file, why) in cases {
        let refused = Server::start(headwater_server::config::Config {
            tls: Some(tls),
            data_dir: authority.folder.join("data"),
            ..config()
        });
        let error = refused.unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(text.contains(&file.display().to_string()) && text.contains(why), "{text}");
    }
}

#[test]
fn a_client_that_does_not_speak_tls_is_told_so() {
    let authority = Authority::new();
    let server = Headwater::with(|config| config.tls = Some(authority.sign("server")));
    let answer = server.ask("GET", "/demo", "", b"").expect(400);
    assert!(answer.text().contains("https") && answer.closes(), "{answer:?}");
    let mut noise = server.connect();
    noise.send(b"\0\0\0\0 what is this");
    let mut rest = Vec::new();
    drop(noise.socket().read_to_end(&mut rest));
    // At most an alert.
    assert!(rest.len() < 16, "{rest:?}");
}

#[test]
fn a_handshake_that_does_not_end_frees_its_place() {
    let authority = Authority::new();
    let server = Headwater::with(|config| {
        config.tls = Some(authority.sign("server"));
        config.header_timeout = Duration::from_millis(500);
        config.connections_max = 2;
    });
    let mut silent = server.connect();
    let mut half = server.connect();
    // The head of a record of 512 bytes, and nothing in it.
    half.send([22, 3, 1, 2, 0]);
    let mut secure = Secure::open(server.address(), authority.any_client(&[]));
    secure.ask("GET", "/demo", b"").expect(200);
    silent.ended();
    half.ended();
}

#[test]
fn live_readers_are_served_over_tls_and_end_with_the_drain() {
    let authority = Authority::new();
    let tls = authority.sign("server");
    let files = format!("cert={} key={}", tls.certificate.display(), tls.key.display());
    let mut server = Process::start(&format!("drain=4000 sse=600000 {files}"), "");
    let mut writer = Secure::open(server.address(), authority.any_client(&[]));
    writer.ask("PUT", "/demo/x", b"text").expect(201);
    let mut readers: Vec<_> = (0..20)
        .map(|_| {
            let mut reader = Secure::open(server.address(), authority.any_client(&["http/1.1"]));
            let live = request("GET", "/demo/x?offset=now&live=sse", "", b"");
            reader.0.write_all(&live).unwrap();
            reader.until("event: control");
            reader.until("\n\n");
            reader
        })
        .collect();
    for text in ["<1>", "<2>"] {
        writer.ask("POST", "/demo/x", text.as_bytes()).expect(204);
        for reader in &mut readers {
            reader.until(text);
        }
    }
    // More than the socket takes at a time, so that the rest has to follow.
    let large = "y".repeat(3 << 20) + "<end>";
    writer.ask("POST", "/demo/x", large.as_bytes()).expect(204);
    readers[0].until("<end>");
    readers.truncate(1);
    run(async {
        let mut client = Box::pin(http_2(server.address(), authority.any_client(&["h2"]))).await;
        let mut live = client.begin("/demo/x?offset=now&live=sse").await.into_body();
        until(&mut live, "event: control").await;
        server.terminate();
        let last = readers[0].until("\r\n0\r\n\r\n");
        assert!(last.contains("streamNextOffset"), "{last:?}");
        // A notice of the end, so that nobody can have cut it.
        assert_eq!(readers[0].0.read(&mut [0]).unwrap(), 0);
        while crate::multiplex::next(&mut live).await.is_some() {}
    });
    drop(writer);
    assert!(server.ended(Duration::from_secs(6)).success());
}

#[test]
fn a_client_that_never_reads_is_cut_over_tls_too() {
    let authority = Authority::new();
    let tls = authority.sign("server");
    let files = format!("cert={} key={}", tls.certificate.display(), tls.key.display());
    let server = Process::start(&format!("slow=500 sse=600000 {files}"), "");
    let mut writer = Secure::open(server.address(), authority.any_client(&[]));
    writer.ask("PUT", "/demo/x", &vec![b'x'; 16 << 20]).expect(201);
    let before = server.settled_descriptors();
    let stuck: Vec<_> = ["/demo/x", "/demo/x?offset=-1&live=sse"]
        .into_iter()
        .map(|target| {
            let mut reader = Secure::open(server.address(), authority.any_client(&[]));
            reader.0.write_all(&request("GET", target, "", b"")).unwrap();
            reader
        })
        .collect();
    eventually("both are connected", Duration::from_secs(10), || {
        server.descriptors() >= before + 2
    });
    eventually("both are cut", Duration::from_secs(15), || server.descriptors() <= before);
    drop(stuck);
}
