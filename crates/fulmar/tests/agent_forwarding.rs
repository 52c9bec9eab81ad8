//! The agent of a program that uses the library, for OpenSSH's ssh-add on OpenSSH's sshd.

mod common;

use common::{PATIENCE, Sshd, program};
use fulmar::Error;
use fulmar::agent::request::SignRequest;
use fulmar::agent::{Identity, SigningAgent, serve};
use fulmar::keys::{KeySpec, PrivateKey};

struct OneKey(PrivateKey);

impl SigningAgent for OneKey {
    fn identities(&mut self) -> Vec<Identity> {
        vec![Identity {
            blob: self.0.public().blob(),
            comment: "of the library".into(),
        }]
    }

    fn sign(&mut self, request: &SignRequest<'_>) -> Option<Vec<u8>> {
        let algorithm = request.flags.algorithm(self.0.key_type());
        self.0.sign(algorithm, request.data).ok()
    }
}

#[test]
fn programs_on_the_server_use_the_agent_while_it_is_served() {
    let Some(sshd) = Sshd::find("agent-forwarding") else {
        return;
    };
    if program(&["/usr/bin/ssh-add", "/usr/local/bin/ssh-add"]).is_none() {
        println!("skipped: no ssh-add is installed");
        return;
    }
    let session = sshd.connect();
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let public = key.public().to_line();
    let connections = session.agent_connections().unwrap();
    assert!(matches!(session.agent_connections(), Err(Error::Misuse(_))));
    // A signature that ssh-add verifies, and the list.
    let path = sshd.scratch.write("key.pub", &public);
    let command = format!("ssh-add -L && ssh-add -T {}", path.display());
    let channel = session.start().forward_agent().exec(command).unwrap();
    let mut agent = OneKey(key);
    for _ in 0..2 {
        let connection = connections.accept(Some(PATIENCE)).unwrap();
        serve(&connection, &mut agent).unwrap();
    }
    let output = channel.output(4096).unwrap();
    assert!(output.exit.is_success(), "{output:?}");
    let listed = String::from_utf8(output.stdout.clone()).unwrap();
    let blob = public.split(' ').nth(1).unwrap();
    assert!(listed.contains(blob), "{listed}");

    // Nobody accepts any more: the server's channel is refused. OpenSSH takes one request only.
    drop(connections);
    let session = sshd.connect();
    drop(session.agent_connections().unwrap());
    let list = session.start().forward_agent().exec("ssh-add -L").unwrap();
    let refused = list.output(4096).unwrap();
    assert!(!refused.exit.is_success(), "{refused:?}");
}
