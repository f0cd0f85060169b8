//! The settings that say who may do what.

use std::fs;

use headwater_server::auth::{JwtRules, RootKey, Rules, Scopes, Source};

/// Who may do what.
#[derive(Debug, clap::Args)]
pub(crate) struct Access {
    /// Ask for a credential: an API key (`headwater key`) or a signed link (`headwater link`).
    #[arg(long, env = "HEADWATER_AUTH", help_heading = ACCESS)]
    auth: bool,

    /// A key of your own that may do everything, 32 bytes or more; better in the environment or in
    /// a file than on the command line.
    #[arg(
        long, env = "HEADWATER_ROOT_KEY", hide_env_values = true, value_name = "SECRET",
        value_parser = root_key, requires = "auth", help_heading = ACCESS
    )]
    root_key: Option<RootKey>,

    /// A file that holds the root key.
    #[arg(
        long, env = "HEADWATER_ROOT_KEY_FILE", value_name = "FILE", value_parser = root_key_file,
        requires = "auth", conflicts_with = "root_key", help_heading = ACCESS
    )]
    root_key_file: Option<RootKey>,

    /// What may be done without a credential: scopes, separated by spaces.
    #[arg(
        long, env = "HEADWATER_ANONYMOUS", value_name = "SCOPES", value_parser = scopes,
        requires = "auth", help_heading = ACCESS
    )]
    anonymous: Option<Scopes>,

    /// Believe tokens (JWTs) that were signed with the keys of this JWK set: a file, or an address
    /// that is asked again and again. Their claim `scope` says what they may do.
    #[arg(
        long, env = "HEADWATER_JWT_KEYS", value_name = "FILE|URL", requires = "auth",
        help_heading = ACCESS
    )]
    jwt_keys: Option<String>,

    /// What the claim `aud` of tokens has to name.
    #[arg(
        long, env = "HEADWATER_JWT_AUDIENCE", value_name = "TEXT", default_value = "headwater",
        help_heading = ACCESS
    )]
    jwt_audience: String,

    /// What the claim `iss` of tokens has to be.
    #[arg(
        long, env = "HEADWATER_JWT_ISSUER", value_name = "TEXT", requires = "jwt_keys",
        help_heading = ACCESS
    )]
    jwt_issuer: Option<String>,

    /// Answer 404 instead of 403 about what a credential may not touch.
    #[arg(long, env = "HEADWATER_CONCEAL", requires = "auth", help_heading = ACCESS)]
    conceal: bool,

    /// Listen beyond this machine without asking for credentials.
    #[arg(long, env = "HEADWATER_INSECURE", help_heading = ACCESS)]
    pub(crate) insecure: bool,
}

const ACCESS: &str = "Access";

impl Access {
    /// The rules; nothing when everybody may do everything.
    pub(crate) fn rules(self) -> Option<Rules> {
        self.auth.then(|| Rules {
            root: self.root_key.or(self.root_key_file),
            anonymous: self.anonymous.unwrap_or_default(),
            jwt: self.jwt_keys.map(|keys| JwtRules {
                keys: Source::parse(&keys),
                audience: self.jwt_audience,
                issuer: self.jwt_issuer,
            }),
            conceal: self.conceal,
        })
    }
}

fn root_key(secret: &str) -> Result<RootKey, &'static str> {
    RootKey::new(secret).ok_or("a root key has at least 32 printable characters")
}

fn root_key_file(path: &str) -> Result<RootKey, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    root_key(&text).map_err(str::to_owned)
}

fn scopes(text: &str) -> Result<Scopes, String> {
    Scopes::parse(text).map_err(|error| error.to_string())
}
