use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::test_support::TempDir;

/// A configuration file with a host key, as a person would lay it down.
struct Site {
    directory: TempDir,
    source: Source,
}

impl Site {
    fn new(more: &str) -> Self {
        let directory = TempDir::new();
        let key = keys::PrivateKey::from_ed25519_seed(&[7; 32]);
        let text = keys::private_file::write_openssh(&key, "host", None).unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, &*text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let source = Source {
            file: directory.path().join("config"),
            arguments: ServerArguments::default(),
        };
        let site = Self { directory, source };
        site.write(more);
        site
    }

    fn write(&self, more: &str) {
        let key = self.directory.path().join("key");
        let text = format!(
            "HostKey {}\nListenAddress 127.0.0.1:1\n{more}\n",
            key.display()
        );
        std::fs::write(&self.source.file, text).unwrap();
    }

    fn launch(&self, log: &Log) -> Launch {
        let config = self.source.load().unwrap();
        let host_keys = hostkeys::load(&config.global(), log).unwrap();
        let secret = Secret::new(vec![1; 32]);
        Launch::new(
            SelfExe::open().unwrap(),
            &config,
            host_keys,
            secret,
            &shape(),
        )
        .unwrap()
    }
}

fn shape() -> Shape {
    Shape {
        log_to_stderr: false,
        log_override: 0,
        confinement: None,
        oom_score: None,
    }
}

/// A socket of the service manager, which a reload leaves alone.
fn handed_down() -> Vec<Socket> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    vec![Socket {
        address: listener.local_addr().unwrap(),
        fd: listener.into(),
        inherited: true,
    }]
}

#[test]
fn a_reload_takes_a_good_file_and_refuses_a_bad_one_whole() {
    let log = Log::to_memory(LogLevel::Info);
    let site = Site::new("MaxAuthTries 3");
    let sockets = handed_down();
    let address = sockets[0].address;
    let launch = site.launch(&log);

    site.write("MaxAuthTries 4");
    let Ok(reloaded) = reload(&site.source, launch, sockets, &shape(), &log) else {
        panic!("{:?}", log.lines());
    };
    assert_eq!(reloaded.config.global().max_auth_tries, 4);
    assert_eq!(reloaded.sockets[0].address, address);

    site.write("MaxAuthTries 5\nNoSuchKeyword yes");
    let kept = reload(
        &site.source,
        reloaded.launch,
        reloaded.sockets,
        &shape(),
        &log,
    );
    let Err((launch, sockets)) = kept else {
        panic!("a bad file was taken");
    };
    assert_eq!(sockets[0].address, address);
    let lines = log.lines();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("old configuration stays in use")
                && line.contains("NoSuchKeyword")),
        "{lines:?}"
    );

    // Host keys that are gone refuse the reload too.
    site.write("");
    std::fs::remove_file(site.directory.path().join("key")).unwrap();
    assert!(reload(&site.source, launch, sockets, &shape(), &log).is_err());
}

#[test]
fn a_restricting_keyword_that_is_not_carried_out_refuses_to_start() {
    let site = Site::new("RDomain vrf1");
    assert!(site.source.load().is_err());
}

#[test]
fn a_monitor_gets_the_host_keys_through_a_pipe_of_its_own() {
    let log = Log::to_memory(LogLevel::Info);
    let site = Site::new("");
    let launch = site.launch(&log);
    let reader = launch.key_pipe(Some(42)).unwrap();
    let bytes = sys::io::read_to_end(&reader, crate::connection::MAX_SECRETS_BYTES).unwrap();
    let secrets = <privsep::MonitorSecrets as privsep::Message>::decode_body(&bytes).unwrap();
    assert_eq!(secrets.accepted_ms, Some(42));
    assert_eq!(secrets.private_keys.len(), 1);
    let start = sys::memfd::read_sealed(launch.start_record(), 1 << 20).unwrap();
    let marker = b"OPENSSH PRIVATE KEY";
    assert!(!start.windows(marker.len()).any(|bytes| bytes == marker));
}

#[test]
fn the_pid_file_names_us_and_goes_with_us() {
    let log = Log::to_memory(LogLevel::Info);
    let directory = TempDir::new();
    let path = directory.path().join("pid");
    let options = crate::test_support::options(&format!("PidFile {}", path.display()));
    let args = Args::parse(Vec::new()).unwrap();
    let held = PidFile::write(&options, &args, &log);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.trim(), std::process::id().to_string());
    drop(held);
    assert!(!path.exists());
}
