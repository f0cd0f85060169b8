//! Tokens that somebody else has signed. They are made by hand here, so that they can be wrong in
//! every way. `rsa.pk8` is a key that was made for these tests alone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use headwater_server::auth::{JwtRules, Rules, Source};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair,
};
use serde_json::{Value, json};

use super::{bearer, rules, stream};
use crate::support::{Headwater, Sse, eventually, get, post};

const AUDIENCE: &str = "headwater-tests";

/// Something that signs.
enum Signer {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::from_pkcs8(include_bytes!("rsa.pk8")).unwrap())
    }

    fn p256() -> Self {
        let (rules, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(rules, &random).unwrap();
        Self::P256(EcdsaKeyPair::from_pkcs8(rules, document.as_ref(), &random).unwrap())
    }

    fn ed() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::Ed(_) => "EdDSA",
        }
    }

    fn jwk(&self, id: &str) -> Value {
        let mut jwk = match self {
            Self::Rsa(pair) => {
                let PublicKeyComponents { n, e } =
                    PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "n": encode(n), "e": encode(e) })
            }
            Self::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
                json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y })
            }
            Self::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key()) })
            }
        };
        jwk["kid"] = id.into();
        jwk
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let (bytes, random) = (message.as_bytes(), SystemRandom::new());
        let signature = match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let rules = &signature::RSA_PKCS1_SHA256;
                pair.sign(rules, &random, bytes, &mut signature).unwrap();
                signature
            }
            Self::P256(pair) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(bytes).as_ref().to_vec(),
        };
        format!("{message}.{}", encode(signature))
    }

    /// A good token that names this key.
    fn token(&self, id: &str, scope: &str) -> String {
        self.sign(&json!({ "alg": self.algorithm(), "kid": id }), &claims(scope))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims(scope: &str) -> Value {
    json!({ "exp": now() + 600, "aud": AUDIENCE, "scope": scope })
}

fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn server(keys: Source) -> Headwater {
    let jwt = JwtRules { keys, audience: AUDIENCE.to_owned(), issuer: None };
    let server = Headwater::with(|config| {
        config.auth = Some(Rules { jwt: Some(jwt), ..rules() });
        config.sse_max_duration = std::time::Duration::from_mins(1);
    });
    stream(&server, "/demo/s");
    server
}

fn file(content: &str) -> PathBuf {
    let name = format!("jwks-{}-{:?}.json", std::process::id(), thread::current().id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, content).unwrap();
    path
}

/// A server that knows the keys of three signers by name, and the signers.
fn with_keys() -> (Headwater, [(&'static str, Signer); 3]) {
    let signers = [("r", Signer::rsa()), ("e", Signer::p256()), ("d", Signer::ed())];
    let jwks: Vec<Value> = signers.iter().map(|(id, signer)| signer.jwk(id)).collect();
    (server(Source::File(file(&set(&jwks)))), signers)
}

#[track_caller]
fn refused(server: &Headwater, token: &str, why: &str) {
    let answer = server.send(bearer(get("/demo/s"), token));
    assert_eq!(answer.status, 401, "{why}");
    assert!(answer.text().contains("INVALID_CREDENTIAL"), "{why}");
}

#[test]
fn a_token_of_each_kind_opens_what_its_scope_says() {
    let (server, signers) = with_keys();
    for (id, signer) in &signers {
        let token = signer.token(id, "demo:read /x/*:append");
        // Twice: the second time it need not be checked.
        for _ in 0..2 {
            server.send(bearer(get("/demo/s"), &token)).expect(200);
            server.send(bearer(post("/demo/s").text("x"), &token)).problem(403, "FORBIDDEN");
        }
    }
}

#[test]
fn a_token_that_is_not_right_opens_nothing() {
    let (server, signers) = with_keys();
    let [(_, rsa), (_, p256), (_, ed)] = &signers;
    let good = claims("demo:read");
    for (id, signer) in &signers {
        let header = json!({ "alg": signer.algorithm(), "kid": id });
        let with = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            signer.sign(&header, &claims)
        };
        let without = |name: &str| {
            let mut claims = good.clone();
            claims.as_object_mut().unwrap().remove(name);
            signer.sign(&header, &claims)
        };
        server.send(bearer(get("/demo/s"), &signer.sign(&header, &good))).expect(200);
        refused(&server, &with("exp", (now() - 60).into()), "over");
        refused(&server, &with("exp", "soon".into()), "an end that is no number");
        refused(&server, &with("exp", (-1).into()), "an end before time");
        refused(&server, &without("exp"), "no end");
        refused(&server, &with("nbf", (now() + 120).into()), "not yet");
        refused(&server, &with("aud", "others".into()), "for others");
        refused(&server, &with("aud", json!(["others", 7])), "for others, as a list");
        refused(&server, &without("aud"), "for nobody");
        refused(&server, &without("scope"), "no scope");
        refused(&server, &with("scope", json!(["demo:read"])), "a scope that is no text");
        refused(&server, &with("scope", "demo:fly".into()), "a scope that is none");
        let named = |header: Value| signer.sign(&header, &good);
        let alg = signer.algorithm();
        refused(&server, &named(json!({ "alg": alg, "kid": "other" })), "an unknown key");
        refused(&server, &named(json!({ "alg": alg, "kid": "../../etc/passwd" })), "a path");
        refused(&server, &named(json!({ "alg": alg, "kid": "" })), "an empty name");
        refused(&server, &named(json!({ "alg": "none", "kid": id })), "none");
        refused(&server, &named(json!({ "alg": "HS256", "kid": id })), "a shared secret");
        refused(&server, &named(json!({ "alg": "RS512", "kid": id })), "another algorithm");
        refused(&server, &named(json!({ "kid": id })), "no algorithm");
        let token = signer.token(id, "demo:read");
        let (signed, signature) = token.rsplit_once('.').unwrap();
        refused(&server, &format!("{signed}."), "no signature");
        refused(&server, signed, "two parts");
        refused(&server, &format!("{token}.x"), "four parts");
        refused(&server, &format!("{signed}.{}", encode(vec![0; 64])), "zeroes as a signature");
        refused(&server, &format!("{signed}.{signature}A"), "a longer signature");
        let (header, body) = signed.split_once('.').unwrap();
        let other = encode(claims("*:admin").to_string());
        refused(&server, &format!("{header}.{other}.{signature}"), "other claims");
        refused(&server, &format!("{header}.{body}=.{signature}"), "padding");
    }
    // The key of one signer is not that of another, whatever the head says.
    for (signer, id, alg) in
        [(ed, "e", "ES256"), (p256, "d", "EdDSA"), (rsa, "e", "ES256"), (p256, "r", "RS256")]
    {
        refused(&server, &signer.sign(&json!({ "alg": alg, "kid": id }), &good), "another's key");
    }
    // A public key is no secret: HMAC with it is what a careless server would believe.
    let key = rsa.jwk("r")["n"].as_str().unwrap().to_owned();
    let message = format!(
        "{}.{}",
        encode(json!({ "alg": "HS256", "kid": "r" }).to_string()),
        encode(good.to_string())
    );
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_bytes());
    let tag = ring::hmac::sign(&secret, message.as_bytes());
    refused(&server, &format!("{message}.{}", encode(tag)), "HMAC with a public key");
    refused(&server, &rsa.token("r", &format!("demo:read{}", " ".repeat(9_000))), "too long");
}

#[test]
fn a_token_without_a_key_name_needs_a_key_that_is_the_only_one_of_its_kind() {
    let (one, other, ed) = (Signer::p256(), Signer::p256(), Signer::ed());
    let keys = [one.jwk("1"), other.jwk("2"), ed.jwk("3")];
    let server = server(Source::File(file(&set(&keys))));
    let nameless =
        |signer: &Signer| signer.sign(&json!({ "alg": signer.algorithm() }), &claims("demo:read"));
    server.send(bearer(get("/demo/s"), &nameless(&ed))).expect(200);
    refused(&server, &nameless(&one), "there are two");
}

#[test]
fn keys_that_are_for_something_else_are_not_used() {
    let signer = Signer::p256();
    let mut for_secrets = signer.jwk("1");
    for_secrets["use"] = "enc".into();
    let mut other = signer.jwk("2");
    other["alg"] = "ES384".into();
    let secret = json!({ "kty": "oct", "kid": "3", "k": encode(b"secret") });
    let unknown = json!({ "kty": "XYZ", "kid": "4" });
    let server = server(Source::File(file(&set(&[for_secrets, other, secret, unknown]))));
    for id in ["1", "2", "3", "4"] {
        refused(&server, &signer.token(id, "demo:read"), id);
    }
}

#[test]
fn an_issuer_can_be_asked_for() {
    let signer = Signer::ed();
    let jwt = JwtRules {
        keys: Source::File(file(&set(&[signer.jwk("1")]))),
        audience: AUDIENCE.to_owned(),
        issuer: Some("https://issuer".to_owned()),
    };
    let server = Headwater::with(|config| config.auth = Some(Rules { jwt: Some(jwt), ..rules() }));
    stream(&server, "/demo/s");
    let header = json!({ "alg": "EdDSA", "kid": "1" });
    let mut good = claims("demo:read");
    refused(&server, &signer.sign(&header, &good), "no issuer");
    good["iss"] = "https://other".into();
    refused(&server, &signer.sign(&header, &good), "another issuer");
    good["iss"] = "https://issuer".into();
    server.send(bearer(get("/demo/s"), &signer.sign(&header, &good))).expect(200);
}

#[test]
fn a_live_reader_ends_with_its_token() {
    let (server, [_, _, (id, signer)]) = with_keys();
    // 30 seconds may lie between the clocks: it was over that long ago, but for a moment.
    let mut soon = claims("demo:read");
    soon["exp"] = (now() - 28).into();
    let token = signer.sign(&json!({ "alg": "EdDSA", "kid": id }), &soon);
    let request = bearer(get("/demo/s?offset=-1&live=sse"), &token);
    let mut sse = Sse::open_with(server.connect(), &request);
    assert_eq!(sse.pair().0, "hello");
    sse.ends();
    refused(&server, &token, "over");
}

#[test]
fn keys_in_a_file_are_rotated_by_writing_it_anew() {
    let (old, new) = (Signer::ed(), Signer::ed());
    let path = file(&set(&[old.jwk("1")]));
    let server = server(Source::File(path.clone()));
    let (before, after) = (old.token("1", "demo:read"), new.token("2", "demo:read"));
    server.send(bearer(get("/demo/s"), &before)).expect(200);
    refused(&server, &after, "not yet");
    // What cannot be read changes nothing.
    fs::write(&path, "{").unwrap();
    thread::sleep(std::time::Duration::from_millis(1_500));
    server.send(bearer(get("/demo/s"), &before)).expect(200);
    fs::write(&path, set(&[new.jwk("2")])).unwrap();
    eventually("the new key is known", || {
        server.send(bearer(get("/demo/s"), &after)).status == 200
    });
    refused(&server, &before, "its key is gone");
}

#[test]
fn keys_behind_an_address_may_come_late() {
    let signer = Signer::ed();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let answer = Arc::new(Mutex::new("HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n".to_owned()));
    let said = Arc::clone(&answer);
    thread::spawn(move || {
        for wire in listener.incoming() {
            let mut wire = wire.unwrap();
            let _request = wire.read(&mut [0; 4096]).unwrap();
            let answer = said.lock().unwrap().clone();
            wire.write_all(answer.as_bytes()).unwrap();
        }
    });
    let server = server(Source::Url(url));
    let token = signer.token("1", "demo:read");
    refused(&server, &token, "there are no keys yet");
    let body = set(&[signer.jwk("1")]);
    *answer.lock().unwrap() =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut waited = 0;
    while server.send(bearer(get("/demo/s"), &token)).status != 200 {
        waited += 1;
        assert!(waited < 100, "the keys never came");
        thread::sleep(std::time::Duration::from_millis(200));
    }
}

#[test]
fn a_server_does_not_start_without_the_keys_that_it_was_told_of() {
    let keys = Source::File("/nowhere/keys.json".into());
    let jwt = JwtRules { keys, audience: AUDIENCE.to_owned(), issuer: None };
    let server = Headwater::start();
    let mut config = server.config();
    drop(server);
    config.auth = Some(Rules { jwt: Some(jwt), ..rules() });
    let refused = headwater_server::Server::start(config).unwrap_err();
    assert!(refused.to_string().contains("/nowhere/keys.json"), "{refused}");
    assert_eq!(refused.exit_code(), 2);
}
