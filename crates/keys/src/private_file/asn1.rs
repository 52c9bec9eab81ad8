//! PEM files in OpenSSL's formats: PKCS#1 for RSA (RFC 8017 A.1.2), SEC1 for ECDSA (RFC 5915),
//! PKCS#8 for all types (RFC 5208, RFC 8410), encrypted with RFC 1421 headers or with PBES2 (RFC
//! 8018).

use crypto::hash::HashAlgorithm;
use crypto::legacy;
use crypto::sign::RsaParts;
use zeroize::Zeroizing;

use super::encryption::{pad, unpad};
use super::{PrivateFileError, PrivateKeyFile};
use crate::der::{self, DerReader, oid};
use crate::error::KeyError;
use crate::pem::{self, PemBlock};
use crate::private_key::{PrivateKey, PrivateKeySecret};
use crate::public_key::{EcCurve, PublicKey};

/// Width of the base64 in PEM files.
const LINE_WIDTH: usize = 64;
/// PBKDF2 iterations for written keys: about a third of a second.
const PBKDF2_ITERATIONS: u32 = 600_000;

const LABEL_RSA: &str = "RSA PRIVATE KEY";
const LABEL_EC: &str = "EC PRIVATE KEY";

/// Reads `RSA PRIVATE KEY` and `EC PRIVATE KEY`, with or without `Proc-Type: 4,ENCRYPTED`.
pub(super) fn read_traditional(
    block: &PemBlock<'_>,
    passphrase: Option<&[u8]>,
) -> Result<PrivateKeyFile, PrivateFileError> {
    let read = |der: &[u8]| {
        if block.label == LABEL_RSA {
            read_pkcs1(der)
        } else {
            read_sec1(der, None)
        }
    };
    let encrypted = block
        .header("Proc-Type")
        .is_some_and(|value| value.ends_with("ENCRYPTED"));
    let key = if encrypted {
        let plain = decrypt_traditional(block, passphrase)?;
        // One in 256 wrong passphrases gives valid padding by chance.
        read(unpad(&plain.data, plain.block)?).map_err(|_| PrivateFileError::WrongPassphrase)?
    } else {
        read(&block.body)?
    };
    Ok(PrivateKeyFile {
        key,
        comment: String::new(),
        encrypted,
    })
}

struct Decrypted {
    data: Zeroizing<Vec<u8>>,
    block: u8,
}

/// Decrypts a block with a header `DEK-Info: cipher,iv`.
fn decrypt_traditional(
    block: &PemBlock<'_>,
    passphrase: Option<&[u8]>,
) -> Result<Decrypted, PrivateFileError> {
    let (cipher, iv) = block
        .header("DEK-Info")
        .and_then(|value| value.split_once(','))
        .ok_or(PrivateFileError::Malformed)?;
    let iv = wire::hex::decode(iv.trim()).ok_or(PrivateFileError::Malformed)?;
    let (key_len, block_len) = match cipher {
        "AES-128-CBC" => (16, 16),
        "AES-192-CBC" => (24, 16),
        "AES-256-CBC" => (32, 16),
        "DES-EDE3-CBC" => (24, 8),
        other => return Err(unsupported("cipher", other.as_bytes())),
    };
    let passphrase = passphrase.ok_or(PrivateFileError::NeedsPassphrase)?;
    let salt = iv.get(..8).ok_or(PrivateFileError::Malformed)?;
    let key = traditional_key(passphrase, salt, key_len);
    let mut data = Zeroizing::new(block.body.to_vec());
    let result = if block_len == 8 {
        legacy::des_ede3_cbc_decrypt(&key, &iv, &mut data)
    } else {
        legacy::aes_cbc_decrypt(&key, &iv, &mut data)
    };
    result.map_err(|_| PrivateFileError::Malformed)?;
    Ok(Decrypted {
        data,
        block: block_len,
    })
}

/// Derives a key by OpenSSL's EVP_BytesToKey with MD5 and one iteration.
fn traditional_key(passphrase: &[u8], salt: &[u8], len: usize) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(Vec::with_capacity(len + 16));
    let mut previous: Option<crypto::hash::Digest> = None;
    while key.len() < len {
        let mut hasher = crypto::hash::Hasher::new(HashAlgorithm::Md5);
        if let Some(digest) = &previous {
            hasher.update(digest);
        }
        hasher.update(passphrase);
        hasher.update(salt);
        let digest = hasher.finish();
        key.extend_from_slice(&digest);
        previous = Some(digest);
    }
    key.truncate(len);
    key
}

fn read_pkcs1(der: &[u8]) -> Result<PrivateKey, PrivateFileError> {
    let mut outer = DerReader::new(der);
    let mut fields = outer.sequence()?;
    outer.finish()?;
    if fields.small_integer()? != 0 {
        return Err(PrivateFileError::Unsupported("multi-prime RSA".to_owned()));
    }
    let (n, e, d) = (fields.integer()?, fields.integer()?, fields.integer()?);
    let (p, q) = (fields.integer()?, fields.integer()?);
    let (_dmp1, _dmq1) = (fields.integer()?, fields.integer()?);
    let iqmp = fields.integer()?;
    fields.finish()?;
    Ok(PrivateKey::from_rsa(&RsaParts {
        n,
        e,
        d,
        iqmp,
        p,
        q,
    })?)
}

fn read_sec1(der: &[u8], curve: Option<EcCurve>) -> Result<PrivateKey, PrivateFileError> {
    let mut outer = DerReader::new(der);
    let mut fields = outer.sequence()?;
    outer.finish()?;
    if fields.small_integer()? != 1 {
        return Err(PrivateFileError::Malformed);
    }
    let scalar = fields.element(der::OCTET_STRING)?;
    let named = match fields.optional(der::CONTEXT_0)? {
        Some(parameters) => {
            let mut parameters = DerReader::new(parameters);
            let oid = parameters
                .element(der::OBJECT_IDENTIFIER)
                .map_err(|_| PrivateFileError::Unsupported("explicit curve".to_owned()))?;
            parameters.finish()?;
            Some(EcCurve::from_oid(oid).ok_or_else(|| unsupported("curve", b"unknown"))?)
        }
        None => None,
    };
    let point = match fields.optional(der::CONTEXT_1)? {
        Some(inner) => {
            let mut inner = DerReader::new(inner);
            let point = inner.bit_string()?;
            inner.finish()?;
            Some(point)
        }
        None => None,
    };
    fields.finish()?;
    let curve = match (curve, named) {
        (Some(outer), Some(inner)) if outer != inner => return Err(PrivateFileError::Malformed),
        (outer, inner) => outer.or(inner).ok_or(PrivateFileError::Malformed)?,
    };
    Ok(PrivateKey::from_ecdsa(curve, scalar, point)?)
}

/// Reads `PRIVATE KEY`.
pub(super) fn read_pkcs8(der: &[u8], encrypted: bool) -> Result<PrivateKeyFile, PrivateFileError> {
    let mut outer = DerReader::new(der);
    let mut fields = outer.sequence()?;
    outer.finish()?;
    // Version 1 (RFC 5958) only adds a public key at the end, which is ignored like the attributes.
    if fields.small_integer()? > 1 {
        return Err(PrivateFileError::Malformed);
    }
    let mut algorithm = fields.sequence()?;
    let inner = fields.element(der::OCTET_STRING)?;
    let key = match algorithm.element(der::OBJECT_IDENTIFIER)? {
        oid::RSA_ENCRYPTION => read_pkcs1(inner)?,
        oid::EC_PUBLIC_KEY => {
            let curve = algorithm.element(der::OBJECT_IDENTIFIER)?;
            let curve = EcCurve::from_oid(curve).ok_or_else(|| unsupported("curve", b"unknown"))?;
            read_sec1(inner, Some(curve))?
        }
        oid::ED25519 => {
            let mut inner = DerReader::new(inner);
            let seed = inner.element(der::OCTET_STRING)?;
            inner.finish()?;
            let seed: &[u8; 32] = seed.try_into().map_err(|_| PrivateFileError::Malformed)?;
            PrivateKey::from_ed25519_seed(seed)
        }
        _ => return Err(PrivateFileError::Unsupported("type of key".to_owned())),
    };
    Ok(PrivateKeyFile {
        key,
        comment: String::new(),
        encrypted,
    })
}

/// Reads `ENCRYPTED PRIVATE KEY`.
pub(super) fn read_encrypted_pkcs8(
    der: &[u8],
    passphrase: Option<&[u8]>,
) -> Result<PrivateKeyFile, PrivateFileError> {
    let mut outer = DerReader::new(der);
    let mut fields = outer.sequence()?;
    outer.finish()?;
    let mut algorithm = fields.sequence()?;
    let ciphertext = fields.element(der::OCTET_STRING)?;
    fields.finish()?;
    if algorithm.element(der::OBJECT_IDENTIFIER)? != oid::PBES2 {
        return Err(PrivateFileError::Unsupported(
            "encryption (only PBES2)".to_owned(),
        ));
    }
    let mut parameters = algorithm.sequence()?;
    let mut derivation = parameters.sequence()?;
    let mut scheme = parameters.sequence()?;
    let (cipher, iv) = (
        scheme.element(der::OBJECT_IDENTIFIER)?,
        scheme.element(der::OCTET_STRING)?,
    );
    let (key_len, block) = match cipher {
        oid::AES128_CBC => (16, 16),
        oid::AES192_CBC => (24, 16),
        oid::AES256_CBC => (32, 16),
        oid::DES_EDE3_CBC => (24, 8),
        _ => return Err(PrivateFileError::Unsupported("cipher".to_owned())),
    };
    let passphrase = passphrase.ok_or(PrivateFileError::NeedsPassphrase)?;
    let key = pbkdf2(&mut derivation, passphrase, key_len)?;
    let mut data = Zeroizing::new(ciphertext.to_vec());
    let result = if block == 8 {
        legacy::des_ede3_cbc_decrypt(&key, iv, &mut data)
    } else {
        legacy::aes_cbc_decrypt(&key, iv, &mut data)
    };
    result.map_err(|_| PrivateFileError::Malformed)?;
    read_pkcs8(unpad(&data, block)?, true).map_err(|error| match error {
        PrivateFileError::Malformed => PrivateFileError::WrongPassphrase,
        other => other,
    })
}

/// Derives a key by PBKDF2 with the parameters of RFC 8018 A.2.
fn pbkdf2(
    derivation: &mut DerReader<'_>,
    passphrase: &[u8],
    key_len: usize,
) -> Result<Zeroizing<Vec<u8>>, PrivateFileError> {
    if derivation.element(der::OBJECT_IDENTIFIER)? != oid::PBKDF2 {
        return Err(PrivateFileError::Unsupported(
            "key derivation (only PBKDF2)".to_owned(),
        ));
    }
    let mut parameters = derivation.sequence()?;
    let salt = parameters.element(der::OCTET_STRING)?;
    let iterations = parameters.small_integer()?;
    if let Some(len) = parameters.optional(der::INTEGER)?
        && !matches!(len, [len] if usize::from(*len) == key_len)
    {
        return Err(PrivateFileError::Malformed);
    }
    let hash = if parameters.is_empty() {
        HashAlgorithm::Sha1
    } else {
        match parameters.sequence()?.element(der::OBJECT_IDENTIFIER)? {
            oid::HMAC_SHA1 => HashAlgorithm::Sha1,
            oid::HMAC_SHA256 => HashAlgorithm::Sha256,
            oid::HMAC_SHA384 => HashAlgorithm::Sha384,
            oid::HMAC_SHA512 => HashAlgorithm::Sha512,
            _ => return Err(PrivateFileError::Unsupported("hash".to_owned())),
        }
    };
    let mut key = Zeroizing::new(vec![0; key_len]);
    legacy::pbkdf2_hmac(hash, passphrase, salt, iterations, &mut key)
        .map_err(|_| PrivateFileError::TooMuchWork)?;
    Ok(key)
}

pub(super) fn write_traditional(
    key: &PrivateKey,
    passphrase: Option<&[u8]>,
) -> Result<Zeroizing<String>, PrivateFileError> {
    let (label, der) = match key.public() {
        PublicKey::Rsa { .. } => (LABEL_RSA, write_pkcs1(key)?),
        PublicKey::Ecdsa { curve, .. } => (LABEL_EC, write_sec1(key, Some(*curve))?),
        _ => return Err(PrivateFileError::NotInThisFormat),
    };
    let Some(passphrase) = passphrase else {
        return Ok(pem::write(label, &[], &der, LINE_WIDTH));
    };
    let iv: [u8; 16] = crypto::random::bytes();
    let derived = traditional_key(passphrase, iv.get(..8).unwrap_or_default(), 16);
    let mut data = pad(&der);
    legacy::aes_cbc_encrypt(&derived, &iv, &mut data).map_err(internal)?;
    let info = format!("AES-128-CBC,{}", to_hex(&iv));
    let headers = [("Proc-Type", "4,ENCRYPTED"), ("DEK-Info", info.as_str())];
    Ok(pem::write(label, &headers, &data, LINE_WIDTH))
}

pub(super) fn write_pkcs8(
    key: &PrivateKey,
    passphrase: Option<&[u8]>,
) -> Result<Zeroizing<String>, PrivateFileError> {
    let der = pkcs8(key)?;
    let Some(passphrase) = passphrase else {
        return Ok(pem::write("PRIVATE KEY", &[], &der, LINE_WIDTH));
    };
    let (salt, iv): ([u8; 16], [u8; 16]) = (crypto::random::bytes(), crypto::random::bytes());
    let mut derived = Zeroizing::new([0; 32]);
    legacy::pbkdf2_hmac(
        HashAlgorithm::Sha256,
        passphrase,
        &salt,
        PBKDF2_ITERATIONS,
        &mut *derived,
    )
    .map_err(internal)?;
    let mut data = pad(&der);
    legacy::aes_cbc_encrypt(&*derived, &iv, &mut data).map_err(internal)?;
    let whole = encrypted_info(&salt, PBKDF2_ITERATIONS, &iv, &data);
    Ok(pem::write("ENCRYPTED PRIVATE KEY", &[], &whole, LINE_WIDTH))
}

/// Encodes EncryptedPrivateKeyInfo (RFC 5208 §6) with PBES2 and AES-256-CBC.
pub(super) fn encrypted_info(
    salt: &[u8],
    iterations: u32,
    iv: &[u8],
    data: &[u8],
) -> Zeroizing<Vec<u8>> {
    let sequence = |parts: &[&[u8]]| der::element(der::SEQUENCE, parts);
    let identifier = |oid: &[u8]| der::element(der::OBJECT_IDENTIFIER, &[oid]);
    let octets = |bytes: &[u8]| der::element(der::OCTET_STRING, &[bytes]);
    let prf = sequence(&[&identifier(oid::HMAC_SHA256), &der::element(der::NULL, &[])]);
    let parameters = sequence(&[
        &octets(salt),
        &der::integer(&iterations.to_be_bytes()),
        &prf,
    ]);
    let derivation = sequence(&[&identifier(oid::PBKDF2), &parameters]);
    let scheme = sequence(&[&identifier(oid::AES256_CBC), &octets(iv)]);
    let algorithm = sequence(&[&identifier(oid::PBES2), &sequence(&[&derivation, &scheme])]);
    sequence(&[&algorithm, &octets(data)])
}

fn pkcs8(key: &PrivateKey) -> Result<Zeroizing<Vec<u8>>, PrivateFileError> {
    let identifier = |oid: &[u8]| der::element(der::OBJECT_IDENTIFIER, &[oid]);
    let (algorithm, inner) = match key.public() {
        PublicKey::Rsa { .. } => {
            let parts: [&[u8]; 2] = [
                &identifier(oid::RSA_ENCRYPTION),
                &der::element(der::NULL, &[]),
            ];
            (der::element(der::SEQUENCE, &parts), write_pkcs1(key)?)
        }
        PublicKey::Ecdsa { curve, .. } => {
            let parts: [&[u8]; 2] = [&identifier(oid::EC_PUBLIC_KEY), &identifier(curve.oid())];
            (der::element(der::SEQUENCE, &parts), write_sec1(key, None)?)
        }
        PublicKey::Ed25519 { .. } => {
            let PrivateKeySecret::Software(secret) = key.secret() else {
                return Err(PrivateFileError::NotInThisFormat);
            };
            let seed = secret
                .ed25519_seed()
                .ok_or(PrivateFileError::Key(KeyError::Internal))?;
            (
                der::element(der::SEQUENCE, &[&identifier(oid::ED25519)]),
                der::element(der::OCTET_STRING, &[&seed[..]]),
            )
        }
        _ => return Err(PrivateFileError::NotInThisFormat),
    };
    Ok(der::element(
        der::SEQUENCE,
        &[
            &der::integer(&[]),
            &algorithm,
            &der::element(der::OCTET_STRING, &[&inner]),
        ],
    ))
}

fn write_pkcs1(key: &PrivateKey) -> Result<Zeroizing<Vec<u8>>, PrivateFileError> {
    let PrivateKeySecret::Software(secret) = key.secret() else {
        return Err(PrivateFileError::NotInThisFormat);
    };
    let parts = secret
        .rsa_parts()
        .ok_or(PrivateFileError::NotInThisFormat)?;
    let (dmp1, dmq1) = (parts.dmp1(), parts.dmq1());
    let integers = [
        &[][..],
        &parts.n,
        &parts.e,
        &parts.d,
        &parts.p,
        &parts.q,
        &dmp1,
        &dmq1,
        &parts.iqmp,
    ]
    .map(der::integer);
    let slices: Vec<&[u8]> = integers.iter().map(|integer| integer.as_slice()).collect();
    Ok(der::element(der::SEQUENCE, &slices))
}

/// Encodes a SEC1 key with the curve's name, or without it inside PKCS#8, which names the curve
/// itself.
fn write_sec1(
    key: &PrivateKey,
    curve: Option<EcCurve>,
) -> Result<Zeroizing<Vec<u8>>, PrivateFileError> {
    let (PrivateKeySecret::Software(secret), PublicKey::Ecdsa { point, .. }) =
        (key.secret(), key.public())
    else {
        return Err(PrivateFileError::NotInThisFormat);
    };
    let scalar = secret
        .ecdsa_scalar()
        .ok_or(PrivateFileError::Key(KeyError::Internal))?;
    let named = curve.map_or(Zeroizing::default(), |curve| {
        let oid = der::element(der::OBJECT_IDENTIFIER, &[curve.oid()]);
        der::element(der::CONTEXT_0, &[&oid])
    });
    Ok(der::element(
        der::SEQUENCE,
        &[
            &der::integer(&[1]),
            &der::element(der::OCTET_STRING, &[&scalar]),
            &named,
            &der::element(der::CONTEXT_1, &[&der::bit_string(point)]),
        ],
    ))
}

fn internal(_: crypto::LegacyError) -> PrivateFileError {
    PrivateFileError::Key(KeyError::Internal)
}

fn unsupported(what: &str, name: &[u8]) -> PrivateFileError {
    PrivateFileError::Unsupported(format!("{what} \"{}\"", crate::error::printable(name)))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
