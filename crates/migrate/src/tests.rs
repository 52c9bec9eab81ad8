use std::fs;

use super::*;

/// A root directory that goes with the test.
struct Root(PathBuf);

impl Root {
    fn new() -> Self {
        let random: [u8; 8] = crypto::random::bytes();
        let path = std::env::temp_dir().join(format!(
            "fulmar-migrate-{:016x}",
            u64::from_le_bytes(random)
        ));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn server(&self) -> Vec<Consequence> {
        server(&Machine::at(&self.0)).unwrap()
    }

    fn client(&self) -> Vec<Consequence> {
        client(&Machine::at(&self.0))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(spec: keys::KeySpec) -> String {
    keys::PrivateKey::generate(spec).unwrap().public().to_line()
}

/// A line of an RSA key whose modulus has this many bits; no two numbers were multiplied for it.
fn rsa_line(bits: usize) -> String {
    let mut modulus = vec![0x55; bits / 8];
    modulus[0] = 0x80;
    modulus[bits / 8 - 1] |= 1;
    let mut blob = Vec::new();
    for field in [&b"ssh-rsa"[..], &[1, 0, 1], &[&[0][..], &modulus].concat()] {
        blob.extend(u32::try_from(field.len()).unwrap().to_be_bytes());
        blob.extend(field);
    }
    keys::PublicKey::from_blob(&blob).unwrap().to_line()
}

fn lines(found: &[Consequence]) -> Vec<&str> {
    found
        .iter()
        .flat_map(|one| one.lines.iter().map(String::as_str))
        .collect()
}

#[test]
fn a_machine_without_a_server_has_no_consequences_of_one() {
    assert_eq!(Root::new().server(), []);
}

#[test]
fn users_who_know_only_the_ecdsa_key_are_counted() {
    let root = Root::new();
    let (ecdsa, ed25519) = (
        key(keys::KeySpec::Ecdsa(keys::EcCurve::P256)),
        key(keys::KeySpec::Ed25519),
    );
    root.write("etc/ssh/sshd_config", "Port 22\n");
    for (kind, line) in [("ecdsa", &ecdsa), ("ed25519", &ed25519)] {
        root.write(&format!("etc/ssh/ssh_host_{kind}_key"), "");
        root.write(&format!("etc/ssh/ssh_host_{kind}_key.pub"), line);
    }
    let mut passwd = String::new();
    for (number, known) in [
        format!("h {ecdsa}"),
        format!("|1|x|y {ecdsa}\n"),
        format!("h {ecdsa}\nh {ed25519}"),
    ]
    .iter()
    .enumerate()
    {
        root.write(&format!("home/u{number}/.ssh/known_hosts"), known);
        passwd += &format!("u{number}:x:{number}:{number}::/home/u{number}:/bin/sh\n");
    }
    root.write("etc/passwd", passwd);
    let found = root.server();
    assert!(
        found[0].what.starts_with("2 users' known_hosts here"),
        "{found:?}"
    );
    assert_eq!(
        found[0].lines,
        [
            "HostKey /etc/ssh/ssh_host_ecdsa_key",
            "HostKey /etc/ssh/ssh_host_ed25519_key"
        ]
    );
    // A configuration that names its keys has decided.
    root.write(
        "etc/ssh/sshd_config",
        "HostKey /etc/ssh/ssh_host_ed25519_key\n",
    );
    assert!(
        !lines(&root.server())
            .iter()
            .any(|line| line.starts_with("HostKey"))
    );
}

#[test]
fn the_version_of_openssh_decides_over_finite_fields() {
    let root = Root::new();
    root.write("etc/ssh/sshd_config", "");
    let exchanges = |version: &str| {
        root.write(
            "usr/sbin/sshd",
            format!("\u{7f}ELF OpenSSH_%s\0{version}\0"),
        );
        let found = root.server();
        lines(&found)
            .into_iter()
            .find(|line| line.starts_with("KexAlgorithms"))
            .unwrap()
            .to_owned()
    };
    let old = exchanges("OpenSSH_9.2p1 Debian");
    assert!(old.contains("diffie-hellman-group14-sha256"), "{old}");
    // What OpenSSH's own defaults have not had for years does not come back.
    assert!(!old.contains("sha1"), "{old}");
    assert!(lines(&root.server()).contains(&"MACs +hmac-sha1-etm@openssh.com,hmac-sha1"));
    let new = exchanges("OpenSSH_10.6");
    assert_eq!(
        new,
        "KexAlgorithms +ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521"
    );
    root.write(
        "etc/ssh/sshd_config",
        "KexAlgorithms curve25519-sha256\nMACs hmac-sha2-256\n",
    );
    assert_eq!(root.server(), []);
}

#[test]
fn the_rules_of_openssh_s_pam_service_stay_in_use() {
    let root = Root::new();
    root.write("etc/ssh/sshd_config", "UsePAM yes\n");
    assert!(!lines(&root.server()).contains(&"PAMServiceName sshd"));
    root.write("etc/pam.d/sshd", "");
    assert!(lines(&root.server()).contains(&"PAMServiceName sshd"));
    root.write("etc/ssh/sshd_config", "UsePAM yes\nPAMServiceName sshd\n");
    assert!(!lines(&root.server()).contains(&"PAMServiceName sshd"));
}

#[test]
fn small_rsa_keys_are_found_where_users_and_hosts_have_them() {
    let root = Root::new();
    root.write("etc/ssh/sshd_config", "");
    root.write("etc/passwd", "a:x:1:1::/home/a:/bin/sh\n");
    root.write(
        "home/a/.ssh/authorized_keys",
        format!("from=\"10.0.0.0/8\",no-pty {} a\n", rsa_line(1024)),
    );
    assert!(lines(&root.server()).contains(&"RequiredRSASize 1024"));
    root.write("home/a/.ssh/authorized_keys", rsa_line(2048));
    assert!(!lines(&root.server()).contains(&"RequiredRSASize 1024"));
    root.write("etc/ssh/ssh_host_rsa_key.pub", rsa_line(1536));
    assert!(lines(&root.server()).contains(&"RequiredRSASize 1024"));
    root.write("etc/ssh/sshd_config", "RequiredRSASize 3072\n");
    assert!(!lines(&root.server()).contains(&"RequiredRSASize 1024"));

    // A host key without its public half beside it.
    root.write("etc/ssh/sshd_config", "");
    let private = keys::PrivateKey::generate(keys::KeySpec::Rsa { bits: 1024 }).unwrap();
    let text = keys::private_file::write_openssh(&private, "", None).unwrap();
    fs::remove_file(root.0.join("etc/ssh/ssh_host_rsa_key.pub")).unwrap();
    assert!(!lines(&root.server()).contains(&"RequiredRSASize 1024"));
    root.write("etc/ssh/ssh_host_rsa_key", text.as_str());
    assert!(lines(&root.server()).contains(&"RequiredRSASize 1024"));
}

#[test]
fn a_client_keyword_that_a_policy_sets_under_a_condition_is_left_to_it() {
    let root = Root::new();
    root.write("etc/passwd", "a:x:1:1::/home/a:/bin/sh\n");
    root.write(
        "home/a/.ssh/known_hosts",
        format!("old {}\n", rsa_line(1024)),
    );
    root.write(
        "etc/ssh/ssh_config",
        "Include /etc/ssh/ssh_config.d/*.conf\n",
    );
    assert_eq!(
        lines(&root.client()),
        [
            "MACs +hmac-sha1-etm@openssh.com,hmac-sha1",
            "RequiredRSASize 1024"
        ]
    );
    root.write(
        "etc/ssh/ssh_config.d/50-redhat.conf",
        "Match final all\n    Include /etc/crypto-policies/back-ends/openssh.config\n",
    );
    root.write(
        "etc/crypto-policies/back-ends/openssh.config",
        "MACs hmac-sha2-256\nRequiredRSASize 2048\n",
    );
    assert_eq!(root.client(), []);
}

#[test]
fn a_link_in_a_home_leads_nowhere() {
    let root = Root::new();
    root.write("etc/ssh/sshd_config", "");
    root.write("etc/passwd", "a:x:1:1::/home/a:/bin/sh\n");
    root.write("secret", rsa_line(1024));
    fs::create_dir_all(root.0.join("home/a/.ssh")).unwrap();
    std::os::unix::fs::symlink(
        root.0.join("secret"),
        root.0.join("home/a/.ssh/authorized_keys"),
    )
    .unwrap();
    assert!(!lines(&root.server()).contains(&"RequiredRSASize 1024"));
}
