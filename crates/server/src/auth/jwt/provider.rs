//! The cryptography behind tokens: `ring`, which TLS has brought already. Signatures are checked
//! and never made, and shared secrets are no keys here.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{self as ring_signature, RsaParameters, UnparsedPublicKey};
use signature::{Error, Verifier};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| {
        if !algorithms(key).contains(algorithm) {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        Ok(Box::new(Check { algorithm: *algorithm, key: key.clone() }))
    },
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes this what tokens are checked with, once a process.
pub(super) fn install() {
    let _installed_before = PROVIDER.install_default().is_err();
}

/// What a key can check: the algorithms of its own kind and size.
pub(super) fn algorithms(key: &DecodingKey) -> Vec<Algorithm> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    match (key.family(), key.try_get_as_bytes().map(<[u8]>::len)) {
        (AlgorithmFamily::Rsa, _) => vec![RS256, RS384, RS512, PS256, PS384, PS512],
        // A point of the curve, uncompressed.
        (AlgorithmFamily::Ec, Ok(65)) => vec![ES256],
        (AlgorithmFamily::Ec, Ok(97)) => vec![ES384],
        (AlgorithmFamily::Ed, Ok(32)) => vec![EdDSA],
        _ => Vec::new(),
    }
}

struct Check {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for Check {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Check {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let checked: Result<std::result::Result<(), ring::error::Unspecified>> =
            match self.key.kind() {
                DecodingKeyKind::RsaModulusExponent { n, e } => rsa(self.algorithm).map(|rules| {
                    ring_signature::RsaPublicKeyComponents { n, e }
                        .verify(rules, message, signature)
                }),
                DecodingKeyKind::SecretOrDer(point) => curve(self.algorithm)
                    .map(|rules| UnparsedPublicKey::new(rules, point).verify(message, signature)),
            };
        match checked {
            Ok(Ok(())) => Ok(()),
            _ => Err(Error::new()),
        }
    }
}

fn rsa(algorithm: Algorithm) -> Result<&'static RsaParameters> {
    Ok(match algorithm {
        Algorithm::RS256 => &ring_signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &ring_signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &ring_signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &ring_signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &ring_signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &ring_signature::RSA_PSS_2048_8192_SHA512,
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    })
}

fn curve(algorithm: Algorithm) -> Result<&'static dyn ring_signature::VerificationAlgorithm> {
    Ok(match algorithm {
        Algorithm::ES256 => &ring_signature::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &ring_signature::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &ring_signature::ED25519,
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    })
}
