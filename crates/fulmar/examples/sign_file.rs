//! Signs standard input with a key of the user's agent, as `ssh-keygen -Y sign -n file` does:
//! `cargo run --example sign_file <FILE >FILE.sig`

use std::error::Error;
use std::io::Read;
use std::os::unix::net::UnixStream;

use fulmar::agent::AgentClient;
use fulmar::keys::PresentedKey;
use fulmar::keys::sshsig::{self, FileSignature};

/// A signature for one purpose is none for another.
const NAMESPACE: &[u8] = b"file";

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::var_os("SSH_AUTH_SOCK").ok_or("there is no agent (SSH_AUTH_SOCK)")?;
    let mut agent = AgentClient::new(UnixStream::connect(socket)?);
    let first = agent.list()?.into_iter().next();
    let identity = first.ok_or("the agent has no key")?;
    let key = PresentedKey::from_blob(&identity.blob)?;
    let algorithm = sshsig::algorithm(key.key().key_type()).ok_or("this key signs no files")?;
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text)?;
    let hash = sshsig::hash_from_name(b"sha512")?;
    let digest = hash.digest(&text);
    let message = sshsig::message(NAMESPACE, hash, &digest);
    let signature = FileSignature {
        signature: agent.sign_with(&identity.blob, &message, algorithm)?,
        key,
        namespace: NAMESPACE.to_vec(),
        hash,
    };
    signature.verify(NAMESPACE, &digest)?;
    print!("{}", signature.to_armored());
    Ok(())
}
