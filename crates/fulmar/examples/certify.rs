//! Certifies a user's key for an hour, as `ssh-keygen -s` does:
//! `cargo run --example certify -- AUTHORITY_FILE USER PUBLIC_KEY_FILE >KEY-cert.pub`

use std::error::Error;
use std::time::{Duration, SystemTime};

use fulmar::keys::certificate::CertificateFields;
use fulmar::keys::certificate::CertificateOption;
use fulmar::keys::{CertificateKind, PresentedKey, private_file, public_file};

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [authority_file, user, key_file] = args.as_slice() else {
        return Err("usage: certify AUTHORITY_FILE USER PUBLIC_KEY_FILE".into());
    };
    let file = private_file::load(authority_file.as_ref())?;
    let authority = private_file::parse(&file, None)?.key;
    let key = public_file::parse(&public_file::load(key_file.as_ref())?)?.key;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let fields = CertificateFields {
        key: key.key().clone(),
        serial: now.as_secs(),
        kind: CertificateKind::User,
        key_id: format!("{user} for an hour"),
        principals: vec![user.clone()],
        valid_after: now.as_secs(),
        valid_before: (now + HOUR).as_secs(),
        critical_options: Vec::new(),
        extensions: vec![CertificateOption::flag("permit-pty")],
    };
    let algorithms = authority.key_type().algorithms();
    let algorithm = algorithms.first().ok_or("the key cannot certify")?;
    let certificate = fields.sign(&authority, *algorithm)?;
    let presented = PresentedKey::Certificate(Box::new(certificate));
    println!("{}", public_file::to_line(&presented, user));
    Ok(())
}
