//! `headwater key`: API keys. `headwater link`: links that let whoever has them read a stream.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use headwater_server::auth::{Scope, Scopes, Token};
use headwater_server::offline;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::address::{StreamAddress, encode};
use crate::args::ServerArgs;
use crate::client::{Client, Payload};
use crate::confirm;
use crate::failure::{Exit, Failure, Outcome};
use crate::hint::Subject;
use crate::listing::{Column, Kind, Listing};
use crate::screen::{Screen, print, say};
use crate::units::Span;
use crate::verify;

/// Create, list and revoke API keys.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Create a key and print it: it is shown this once.
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Create),
    /// List the keys.
    #[command(after_help = "Example:\n  headwater key ls --json")]
    Ls(List),
    /// Revoke a key; its links and live readers end with it.
    #[command(after_help = "Example:\n  headwater key revoke 5f3c0a9be1d24c77 --yes")]
    Revoke(Revoke),
}

#[derive(Debug, clap::Args)]
struct Create {
    /// What it may do: PATTERN:ACTION[,ACTION...]; may be given several times.
    #[arg(long, value_name = "SCOPE", required = true, value_parser = scope)]
    scope: Vec<Scope>,

    /// What it is for.
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,

    /// How long it lives; for ever without this.
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,

    /// Make it in this data directory, which no server may be using: for the first key.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "auth"])]
    data_dir: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, clap::Args)]
struct List {
    /// One JSON object a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, clap::Args)]
struct Revoke {
    /// The key's id, as `headwater key ls` shows it.
    #[arg(value_name = "KEY_ID")]
    id: String,

    /// Do not ask, even on a terminal.
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater key create --scope 'demo:read,append' --label app
  headwater key ls
  headwater key revoke 5f3c0a9be1d24c77";

const CREATE_EXAMPLES: &str = "\
Actions are read, append, create, delete, snapshot and admin (which includes the others).

Examples:
  headwater key create --data-dir /var/lib/headwater --scope '*:admin' --label operator
  headwater key create --scope 'demo/doc-*:read,append' --expires 30d
  headwater key create --scope '/orders/*:append' --json | jq -r .token";

pub(crate) fn run(args: Args, screen: Screen) -> Outcome {
    match args.verb {
        Verb::Create(args) => create(args, screen),
        Verb::Ls(args) => listing().print(&Client::new(&args.server), screen, args.json),
        Verb::Revoke(args) => {
            confirm::ask(&format!("revoke key {}?", args.id), args.yes)?;
            let path = format!("/-/keys/{}", encode(&args.id));
            let what = format!("revoke key {}", args.id);
            let client = Client::new(&args.server);
            client.call(Method::DELETE, path, Subject::default(), what).send(Payload::none())?;
            say(format_args!("revoked key {}", args.id));
            Ok(())
        }
    }
}

fn create(args: Create, screen: Screen) -> Outcome {
    let scopes: Vec<String> = args.scope.iter().map(ToString::to_string).collect();
    let key = if let Some(dir) = &args.data_dir {
        let scopes = Scopes::new(args.scope)
            .map_err(|error| Failure::because(Exit::Usage, "cannot create the key", &error))?;
        let lives = args.expires.map(|span| span.0);
        let made = offline::create_key(dir, &args.label, &scopes, lives);
        let token: Token = made.map_err(|error| verify::failed(&error))?;
        json!({ "key_id": token.id.to_string(), "token": token.reveal() })
    } else {
        let body = json!({
            "label": args.label,
            "scopes": scopes,
            "expires_in_seconds": args.expires.map(|span| span.0.as_secs().max(1)),
        });
        let client = Client::new(&args.server);
        let call =
            client.call(Method::POST, "/-/keys".to_owned(), Subject::default(), "create a key");
        call.send(Payload::Bytes(body.to_string().as_bytes()))?.into_json()?
    };
    let field = |name: &'static str| (name, key.get(name).cloned().unwrap_or(Value::Null));
    screen
        .record(&[field("key_id"), ("scopes", scopes.join(" ").into()), field("token")], args.json)
}

fn listing() -> Listing<'static> {
    Listing {
        path: "/-/keys".to_owned(),
        entries: "keys",
        columns: COLUMNS,
        prefix: None,
        subject: Subject::default(),
        what: "list the keys".to_owned(),
    }
}

const COLUMNS: &[Column] = &[
    Column { member: "key_id", kind: Kind::Text },
    Column { member: "label", kind: Kind::Text },
    Column { member: "scopes", kind: Kind::Texts },
    Column { member: "created_at_ms", kind: Kind::Time },
    Column { member: "expires_at_ms", kind: Kind::Time },
];

fn scope(text: &str) -> Result<Scope, String> {
    Scope::parse(text).map_err(|error| error.to_string())
}

/// Print a link that lets whoever has it read a stream, its snapshot and its bootstrap.
///
/// It is signed with the API key in --auth, without asking the server. It can do no more than that
/// key, and ends with it.
#[derive(Debug, clap::Args)]
#[command(after_help = LINK_EXAMPLES)]
pub(crate) struct LinkArgs {
    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    /// How long the link is good for.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    expires: Span,

    #[command(flatten)]
    server: ServerArgs,
}

const LINK_EXAMPLES: &str = "\
Examples:
  STREAM_AUTH=\"Bearer $KEY\" headwater link demo/hello --expires 15m
  curl \"$(headwater link demo/hello)&offset=-1&live=sse\"";

pub(crate) fn link(args: &LinkArgs) -> Outcome {
    let token = args.server.auth.as_deref().and_then(|auth| auth.split_once(' '));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let end = now.saturating_add(args.expires.0).as_secs();
    let path = args.stream.path();
    let signed =
        token.and_then(|(_, token)| headwater_server::auth::sign_path(token.trim(), &path, end));
    let Some(signed) = signed else {
        let what = "a link is signed with an API key";
        return Err(Failure::new(Exit::Usage, what).hint(
            "give --auth \"Bearer hw_...\", as `headwater key create` printed it".to_owned(),
        ));
    };
    let url = args.server.url.join(&format!("{path}?token={signed}"));
    print(format!("{url}\n").as_bytes())
}
