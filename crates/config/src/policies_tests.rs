//! The crypto policies of Fedora and its relatives: files of /etc/crypto-policies/back-ends that the
//! distribution's configuration includes, with the names that Fedora 43 writes.

use std::path::Path;

use crate::client::CommandLine;
use crate::environment::MemoryFiles;
use crate::testing::FakeEnvironment;
use crate::{ClientConfig, ServerArguments, ServerConfig};

const CIPHERS: &str = "aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,aes128-gcm@openssh.com,aes128-ctr";
const MACS: &str = "hmac-sha2-256-etm@openssh.com,hmac-sha1-etm@openssh.com,umac-128-etm@openssh.com,\
                    hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha1,umac-128@openssh.com,hmac-sha2-512";
const KEX: &str = "mlkem768x25519-sha256,curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,\
                   ecdh-sha2-nistp384,ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256,\
                   diffie-hellman-group14-sha256,diffie-hellman-group16-sha512,diffie-hellman-group18-sha512";
const CA_SIGNATURES: &str = "ecdsa-sha2-nistp256,sk-ecdsa-sha2-nistp256@openssh.com,ecdsa-sha2-nistp384,\
                             ecdsa-sha2-nistp521,ssh-ed25519,sk-ssh-ed25519@openssh.com,rsa-sha2-256,rsa-sha2-512";

/// The same names with their certificates, as HostKeyAlgorithms and others list them.
fn signatures() -> String {
    let names = CA_SIGNATURES.split(',').flat_map(|name| {
        let plain = name.trim_end_matches("@openssh.com");
        [name.to_owned(), format!("{plain}-cert-v01@openssh.com")]
    });
    names.collect::<Vec<_>>().join(",")
}

/// A policy's text for ssh or sshd, with `more` names in each list.
fn policy(is_server: bool, [ciphers, macs, kex, keys]: [&str; 4]) -> String {
    let signatures = signatures() + keys;
    let host_keys = match is_server {
        true => format!("HostKeyAlgorithms {signatures}\n"),
        false => String::new(),
    };
    format!(
        "Ciphers {CIPHERS}{ciphers}\nMACs {MACS}{macs}\n\
         GSSAPIKexAlgorithms gss-curve25519-sha256-,gss-nistp256-sha256-,gss-group14-sha256-,gss-group16-sha512-\n\
         KexAlgorithms {KEX}{kex}\n{host_keys}PubkeyAcceptedAlgorithms {signatures}\n\
         HostbasedAcceptedAlgorithms {signatures}\nCASignatureAlgorithms {CA_SIGNATURES}{keys}\nRequiredRSASize 2048\n"
    )
}

/// A name for each list that a later policy may have.
const OTHERS: [&str; 4] = [
    ",aes256-later",
    ",hmac-later",
    ",mlkem1024nistp384-sha384",
    ",ssh-later",
];

fn server(others: [&str; 4]) -> ServerConfig {
    let files = MemoryFiles::default()
        .with("/etc/ssh/sshd_config", "Include /etc/ssh/sshd_config.d/*.conf\nSubsystem sftp /usr/libexec/openssh/sftp-server\n")
        .with("/etc/ssh/sshd_config.d/40-redhat-crypto-policies.conf", "Include /etc/crypto-policies/back-ends/opensshserver.config\n")
        .with(
            "/etc/ssh/sshd_config.d/50-redhat.conf",
            "SyslogFacility AUTHPRIV\nChallengeResponseAuthentication no\nGSSAPIAuthentication yes\n\
             GSSAPICleanupCredentials no\nUsePAM yes\nX11Forwarding yes\nPrintMotd no\n",
        )
        .with("/etc/crypto-policies/back-ends/opensshserver.config", policy(true, others));
    ServerConfig::load(
        Path::new("/etc/ssh/sshd_config"),
        &files,
        &ServerArguments::default(),
    )
    .unwrap()
}

#[test]
fn a_server_takes_a_policy_s_lists_in_their_order() {
    let algorithms = server([""; 4]).global().algorithms;
    assert_eq!(algorithms.ciphers.join(","), CIPHERS);
    assert_eq!(algorithms.macs.join(","), MACS);
    assert_eq!(algorithms.kex_algorithms.join(","), KEX);
    assert_eq!(algorithms.host_key_algorithms.join(","), signatures());
    assert_eq!(algorithms.ca_signature_algorithms.join(","), CA_SIGNATURES);
    assert_eq!(algorithms.required_rsa_size, 2048);
}

#[test]
fn names_that_a_server_does_not_have_are_named_and_skipped() {
    let config = server(OTHERS);
    assert_eq!(config.global().algorithms.kex_algorithms.join(","), KEX);
    assert_eq!(config.global().algorithms.ciphers.join(","), CIPHERS);
    let said: Vec<&str> = config
        .warnings()
        .iter()
        .map(|warning| warning.text.as_str())
        .collect();
    for words in [
        "Ciphers: aes256-later not known to this version; ignored",
        "MACs: hmac-later not known to this version; ignored",
        "KexAlgorithms: mlkem1024nistp384-sha384 not known to this version; ignored",
        "HostKeyAlgorithms: ssh-later not known to this version; ignored",
        "CASignatureAlgorithms: ssh-later not known to this version; ignored",
    ] {
        assert!(said.contains(&words), "{words}: {said:?}");
    }
}

#[test]
fn a_client_takes_a_policy_in_the_last_pass() {
    let files = MemoryFiles::default()
        .with(
            "/etc/ssh/ssh_config",
            "Include /etc/ssh/ssh_config.d/*.conf\n",
        )
        .with(
            "/etc/ssh/ssh_config.d/50-redhat.conf",
            "Match final all\n\tInclude /etc/crypto-policies/back-ends/openssh.config\n\
             \tGSSAPIAuthentication yes\n\tForwardX11Trusted yes\n",
        )
        .with(
            "/etc/crypto-policies/back-ends/openssh.config",
            policy(false, OTHERS),
        );
    let config = ClientConfig::system().with_files(files);
    let resolve = |line: &CommandLine| config.resolve("h", line, &FakeEnvironment::new()).unwrap();
    let algorithms = resolve(&CommandLine::new()).algorithms;
    assert_eq!(algorithms.kex_algorithms.join(","), KEX);
    assert_eq!(algorithms.macs.join(","), MACS);
    assert_eq!(algorithms.ciphers.join(","), CIPHERS);
    // The user's choice comes before the policy.
    let mut line = CommandLine::new();
    line.option("KexAlgorithms=curve25519-sha256");
    assert_eq!(
        resolve(&line).algorithms.kex_algorithms,
        ["curve25519-sha256"]
    );
}
