//! ssh_config and sshd_config.

use std::net::IpAddr;
use std::path::Path;

use config::client::CommandLine;
use config::environment::MemoryFiles;
use config::{ClientConfig, ConnectionSpec, Environment, LocalUser, ServerArguments, ServerConfig};

struct Nowhere;

impl Environment for Nowhere {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "X").then(|| "x".into())
    }

    fn local_user(&self) -> LocalUser {
        LocalUser {
            name: "local".into(),
            uid: 1000,
            home: "/home/local".into(),
        }
    }

    fn local_hostname(&self) -> String {
        "here.example.org".into()
    }

    fn home_of(&self, _user: &str) -> Option<String> {
        None
    }

    fn run_shell(&self, _command: &str) -> Result<bool, String> {
        Ok(true)
    }

    fn local_addresses(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    fn canonical_name(&self, _name: &str) -> Option<String> {
        None
    }
}

/// A user's ssh_config, resolved for one host.
///
/// # Panics
/// If options or error messages have no text.
pub fn ssh_config(data: &[u8]) {
    let files = MemoryFiles::default()
        .with("/home/local/.ssh/config", data)
        .with("/home/local/.ssh/x", "Port 3\n");
    let config = ClientConfig::standard(Path::new("/home/local")).with_files(files);
    match config.resolve("web1.example.org", &CommandLine::new(), &Nowhere) {
        Ok(options) => assert!(options.dump().starts_with("host web1.example.org\n")),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// An sshd_config, evaluated for one connection and encoded for another process.
///
/// # Panics
/// If the options change by encoding and decoding.
pub fn sshd_config(data: &[u8]) {
    let files = MemoryFiles::default().with("/etc/ssh/x", "MaxSessions 3\n");
    match ServerConfig::parse("f", data, &files, &ServerArguments::default()) {
        Ok(config) => {
            let spec = "user=ann,host=h,addr=192.0.2.7,laddr=10.0.0.1,lport=22";
            let spec = ConnectionSpec::parse(spec).expect("a connection");
            let options = config.for_connection(&spec);
            let again = ServerConfig::decode(&config.encode()).expect("own encoding");
            assert_eq!(again.for_connection(&spec), options);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let _ = ServerConfig::decode(data);
}
