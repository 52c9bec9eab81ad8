use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::test_support::TempDir;

/// A configuration file with a host key.
struct Site {
    directory: TempDir,
    source: ConfigOrigin,
}

impl Site {
    fn new(more: &str) -> Self {
        let directory = TempDir::new();
        let key = keys::PrivateKey::from_ed25519_seed(&[7; 32]);
        let text = keys::private_file::write_openssh(&key, "host", None).unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, &*text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let source = ConfigOrigin {
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
        let kept = launch::Kept::new(SelfExe::open().unwrap(), secret);
        Launch::new(kept, &config, host_keys, &shape()).unwrap()
    }
}

/// Reloads as SIGHUP does, without a library to probe.
fn reload(
    site: &Site,
    launch: &Launch,
    sockets: Vec<Socket>,
    log: &Log,
) -> Result<Reloaded, Vec<Socket>> {
    let mut reloader = Reloader {
        source: &site.source,
        shape: shape(),
        args: &Args::parse(Vec::new()).unwrap(),
        origin: None,
        pid_file: PidFile(None),
        log,
    };
    match reloader.begin() {
        Some(candidate) => reloader.finish(candidate, launch, sockets),
        None => Err(sockets),
    }
}

fn shape() -> Shape {
    Shape {
        log_to_stderr: false,
        log_override: 0,
        confinement: None,
        oom_score: None,
        greet: None,
    }
}

/// A socket of the service manager, which a reload does not change.
fn handed_down() -> Vec<Socket> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    vec![Socket {
        address: listener.local_addr().unwrap(),
        rdomain: None,
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
    let Ok(reloaded) = reload(&site, &launch, sockets, &log) else {
        panic!("{:?}", log.lines());
    };
    assert_eq!(reloaded.config.global().authentication.max_auth_tries, 4);
    assert_eq!(reloaded.sockets[0].address, address);

    site.write("MaxAuthTries 5\nNoSuchKeyword yes");
    let kept = reload(&site, &reloaded.launch, reloaded.sockets, &log);
    let Err(sockets) = kept else {
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

    // Missing host keys prevent the reload too.
    site.write("");
    std::fs::remove_file(site.directory.path().join("key")).unwrap();
    assert!(reload(&site, &reloaded.launch, sockets, &log).is_err());
}

/// Reloads whose probe of libraries runs until the file `gone` is deleted.
struct Waiting<'a> {
    site: &'a Site,
    log: &'a Log,
    gone: PathBuf,
}

impl Reloads for Waiting<'_> {
    fn begin(&mut self) -> Option<NewConfiguration> {
        let config = self.site.source.load().unwrap();
        let script = "while [ -e \"$0\" ]; do sleep 0.02; done; echo works x";
        let script = script.replace("$0", self.gone.to_str().unwrap());
        Some(NewConfiguration {
            host_keys: hostkeys::load(&config.global(), self.log).unwrap(),
            config,
            trial: Some(Trial::by(&script)),
        })
    }

    fn finish(
        &mut self,
        candidate: NewConfiguration,
        _launch: &Launch,
        sockets: Vec<Socket>,
    ) -> Result<Reloaded, Vec<Socket>> {
        assert!(!self.gone.exists(), "nobody has waited");
        Ok(Reloaded {
            config: candidate.config,
            launch: self.site.launch(self.log),
            sockets,
        })
    }
}

#[test]
fn what_is_in_use_serves_while_libraries_are_tried() {
    let log = Log::to_memory(LogLevel::Info);
    let site = Site::new("MaxAuthTries 3");
    let sockets = handed_down();
    let address = sockets[0].address;
    let launch = site.launch(&log);
    let signals = SignalFd::new(&[Signal::HUP]).unwrap();
    let config = site.source.load().unwrap();
    let mut listener = Listener::new(&config, launch, sockets, signals, false, &log).unwrap();
    let gone = site.directory.path().join("under way");
    std::fs::write(&gone, "").unwrap();
    let mut reloads = Waiting {
        site: &site,
        log: &log,
        gone,
    };
    // The second reload replaces the first.
    for tries in [4, 5] {
        site.write(&format!("MaxAuthTries {tries}"));
        listener.begin_reload(&mut reloads).unwrap();
        let now_ms = sys::time::monotonic_ms();
        listener.hear_trial(&mut reloads, now_ms).unwrap();
        assert_eq!(listener.options().authentication.max_auth_tries, 3);
        assert_eq!(listener.addresses(), [address]);
    }
    std::fs::remove_file(&reloads.gone).unwrap();
    let deadline_ms = sys::time::monotonic_ms() + 60_000;
    while listener.options().authentication.max_auth_tries == 3 {
        let now_ms = sys::time::monotonic_ms();
        assert!(now_ms < deadline_ms, "{:?}", log.lines());
        std::thread::sleep(std::time::Duration::from_millis(5));
        listener.hear_trial(&mut reloads, now_ms).unwrap();
    }
    assert_eq!(listener.options().authentication.max_auth_tries, 5);
    assert_eq!(listener.addresses(), [address]);
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
    let connection = privsep::MonitorConnection {
        accepted_ms: 42,
        greeted: Some(vec![3; 16]),
        client: Some(("192.0.2.7".to_owned(), 4000)),
    };
    let reader = launch.key_pipe(Some(&connection)).unwrap();
    let bytes = sys::io::read_to_end(&reader, crate::connection::MAX_SECRETS_BYTES).unwrap();
    let secrets = <privsep::MonitorSecrets as privsep::Message>::decode_body(&bytes).unwrap();
    assert_eq!(secrets.accepted_ms, Some(42));
    assert_eq!(secrets.greeted, connection.greeted);
    assert_eq!(secrets.client, connection.client);
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

#[test]
fn the_pid_file_is_back_behind_a_reload() {
    let log = Log::to_memory(LogLevel::Info);
    let directory = TempDir::new();
    let path = |name| directory.path().join(name);
    let options = |name| crate::test_support::options(&format!("PidFile {}", path(name).display()));
    let args = Args::parse(Vec::new()).unwrap();
    let mut held = PidFile::write(&options("pid"), &args, &log);
    std::fs::remove_file(path("pid")).unwrap();
    held.renew(&options("pid"), &args, &log);
    assert!(path("pid").exists());
    held.renew(&options("other"), &args, &log);
    assert!(path("other").exists() && !path("pid").exists());
    // If the new file cannot be written, the old one stays.
    held.renew(&options("missing/pid"), &args, &log);
    assert!(path("other").exists());
    drop(held);
    assert!(!path("other").exists());
}
