//! An agent of a program's own, for ssh, git and other programs of the user:
//! `cargo run --example own_agent -- KEY_FILE SOCKET`
//!
//! It signs with one key, and says what it signs.

use std::error::Error;
use std::os::unix::net::UnixListener;

use fulmar::agent::request::SignRequest;
use fulmar::agent::{Identity, SigningAgent, serve};
use fulmar::keys::{PrivateKey, fingerprint, private_file};

struct OneKey(PrivateKey);

impl SigningAgent for OneKey {
    fn identities(&mut self) -> Vec<Identity> {
        vec![Identity {
            blob: self.0.public().blob(),
            comment: "the only one".into(),
        }]
    }

    fn sign(&mut self, request: &SignRequest<'_>) -> Option<Vec<u8>> {
        if request.blob != self.0.public().blob() {
            return None;
        }
        let name = fingerprint::sha256(request.blob);
        eprintln!("{} bytes are signed with {name}", request.data.len());
        let algorithm = request.flags.algorithm(self.0.key_type());
        self.0.sign(algorithm, request.data).ok()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [key_file, socket] = args.as_slice() else {
        return Err("usage: own_agent KEY_FILE SOCKET".into());
    };
    let key = private_file::parse(&private_file::load(key_file.as_ref())?, None)?.key;
    let mut agent = OneKey(key);
    let listener = UnixListener::bind(socket)?;
    println!("SSH_AUTH_SOCK={socket}; export SSH_AUTH_SOCK");
    for stream in listener.incoming() {
        // A client that breaks off concerns itself only.
        let _ = serve(stream?, &mut agent);
    }
    Ok(())
}
