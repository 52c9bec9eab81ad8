//! A monitor without privileges or judgement: it starts the two real processes for each
//! connection and answers their requests from a fixed policy. What the real one checks
//! (signatures, accounts, rates) is not looked at here.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use config::environment::SystemFiles;
use config::{ServerArguments, ServerConfig};
use keys::{PrivateKey, SignatureAlgorithm};
use privsep::{
    AuthConnection, AuthOutcome, AuthStart, Frame, FrameHeader, HostKey, HostkeysProof, KeyAnswer,
    LogLevel, Message, Restrictions, SessionGrant, Signature, Snapshot, ToMonitor, UserPolicy,
    roles,
};
use sys::process::{ExitStatus, SelfExe};

/// What the fake monitor says.
#[derive(Clone)]
pub struct Policy {
    /// sshd_config.
    pub config: String,
    /// Blob of the one key that may log in.
    pub key: Vec<u8>,
    /// The one password that may log in.
    pub password: String,
    pub home: String,
    pub shell: String,
    pub forced_command: Option<String>,
    pub restrictions: Restrictions,
    pub login_messages: String,
    pub banner: Option<String>,
    pub max_failures: u32,
    pub grace_seconds: u32,
    pub password_expired: bool,
}

impl Policy {
    pub fn new(home: &str, key: Vec<u8>) -> Self {
        Self {
            config: String::new(),
            key,
            password: "correct horse".into(),
            home: home.into(),
            shell: "/bin/sh".into(),
            forced_command: None,
            restrictions: Restrictions::none(),
            login_messages: String::new(),
            banner: None,
            max_failures: 6,
            grace_seconds: 60,
            password_expired: false,
        }
    }
}

/// What became of the processes of a connection.
#[derive(Debug, Default, Clone)]
pub struct Record {
    pub auth_pid: Option<i32>,
    pub auth_exit: Option<String>,
    pub session_exit: Option<String>,
    pub log: Vec<String>,
}

/// A server on a loopback port.
pub struct Server {
    pub address: SocketAddr,
    pub records: Arc<Mutex<Vec<Record>>>,
}

impl Server {
    pub fn start(policy: Policy) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let records = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&records);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (policy, records) = (policy.clone(), Arc::clone(&shared));
                thread::spawn(move || {
                    let peer = socket.peer_addr().expect("a peer");
                    socket.set_nodelay(true).expect("an option");
                    let slot = {
                        let mut records = records.lock().expect("no panic");
                        records.push(Record::default());
                        records.len() - 1
                    };
                    Connection {
                        policy,
                        peer,
                        address,
                        records,
                        slot,
                    }
                    .serve(socket.into());
                });
            }
        });
        Self { address, records }
    }

    /// Waits until the n-th connection's record satisfies the test.
    pub fn wait_for(&self, index: usize, test: impl Fn(&Record) -> bool) -> Record {
        for _ in 0..6000 {
            if let Some(record) = self.records.lock().expect("no panic").get(index)
                && test(record)
            {
                return record.clone();
            }
            thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!(
            "connection {index}: {:?}",
            self.records.lock().expect("no panic").get(index)
        );
    }
}

struct Connection {
    policy: Policy,
    peer: SocketAddr,
    address: SocketAddr,
    records: Arc<Mutex<Vec<Record>>>,
    slot: usize,
}

fn host_key(index: u8) -> PrivateKey {
    PrivateKey::from_ed25519_seed(&[index + 7; 32])
}

/// The host keys that clients are offered.
pub fn host_keys() -> Vec<HostKey> {
    (0..2_u8)
        .map(|index| HostKey {
            index: u32::from(index),
            blob: host_key(index).public().blob(),
            algorithms: vec!["ssh-ed25519".into()],
        })
        .collect()
}

impl Connection {
    fn note(&self, change: impl FnOnce(&mut Record)) {
        change(&mut self.records.lock().expect("no panic")[self.slot]);
    }

    fn options(&self) -> config::ServerOptions {
        let arguments = ServerArguments {
            aes_hardware: true,
            ..ServerArguments::default()
        };
        let files = SystemFiles::default();
        let text = self.policy.config.as_bytes();
        ServerConfig::parse("sshd_config", text, &files, &arguments)
            .expect("a good configuration")
            .global()
    }

    fn serve(&self, network: OwnedFd) {
        let options = self.options();
        let cage = cage();
        let start = AuthStart {
            options: options.reduced_for_auth().encode(),
            host_keys: host_keys(),
            connection: Some(AuthConnection {
                options: None,
                greeted: None,
                remote_address: self.peer.ip().to_string(),
                remote_port: self.peer.port(),
                local_address: self.address.ip().to_string(),
                local_port: self.address.port(),
                login_grace_seconds: self.policy.grace_seconds,
            }),
            chroot: cage.as_ref().map(|(directory, _)| directory.clone()),
            uid_gid: cage.map(|(_, ids)| ids),
            log_level: LogLevel::Debug1,
            log_verbose: Vec::new(),
        };
        let start = sys::memfd::sealed("auth-start", &start.encode_body()).expect("a memory file");
        let (rpc, theirs) = sys::socket::stream_pair().expect("a pair");
        let mut child = spawn(roles::ROLE_AUTH, &network, theirs, Some(start));
        self.note(|record| record.auth_pid = Some(child.pid()));
        let snapshot = self.authenticate(&rpc);
        drop(rpc);
        let ended = child.wait().expect("a child");
        self.note(|record| record.auth_exit = Some(describe(ended)));
        let Some((snapshot, session_id, version)) = snapshot else {
            return;
        };
        let (rpc, theirs) = sys::socket::stream_pair().expect("a pair");
        let mut child = spawn(roles::ROLE_SESSION, &network, theirs, None);
        drop(network);
        let grant = self.grant(&options, session_id, version);
        send(&rpc, &grant);
        send(&rpc, &snapshot);
        drop(snapshot);
        self.session(&rpc);
        drop(rpc);
        let ended = child.wait().expect("a child");
        self.note(|record| record.session_exit = Some(describe(ended)));
    }

    fn authenticate(&self, rpc: &OwnedFd) -> Option<(Snapshot, Vec<u8>, String)> {
        let methods = vec![
            "publickey".to_owned(),
            "password".to_owned(),
            "keyboard-interactive".to_owned(),
        ];
        let (mut session_id, mut version, mut failures) = (Vec::new(), String::new(), 0);
        let mut judge = |good: bool| {
            if good {
                return AuthOutcome::Success;
            }
            failures += 1;
            if failures >= self.policy.max_failures {
                AuthOutcome::TooManyFailures
            } else {
                AuthOutcome::Failure {
                    methods: methods.clone(),
                }
            }
        };
        loop {
            let frame = receive(rpc)?;
            match ToMonitor::decode(&frame).expect("a message that is permitted") {
                ToMonitor::Log(line) => self.note(|record| {
                    // A monitor would name the client there.
                    let tail = line.tail.map(|tail| format!("{{}}{tail}"));
                    record.log.push(line.text + &tail.unwrap_or_default());
                }),
                ToMonitor::SignExchangeHash(request) => {
                    session_id = request.hash.clone();
                    send(rpc, &sign(request.key_index, &request.hash));
                }
                ToMonitor::User(user) => {
                    version = user.client_version;
                    send(
                        rpc,
                        &UserPolicy {
                            methods: methods.clone(),
                            banner: self.policy.banner.clone(),
                            pubkey_algorithms: vec!["ssh-ed25519".into()],
                            max_auth_tries: self.policy.max_failures,
                        },
                    );
                }
                ToMonitor::AuthNone(_) => send(
                    rpc,
                    &AuthOutcome::Failure {
                        methods: methods.clone(),
                    },
                ),
                ToMonitor::AuthOther(_) | ToMonitor::KbdintRespond(_) => send(rpc, &judge(false)),
                ToMonitor::AuthPassword(request) => {
                    send(
                        rpc,
                        &judge(request.password.expose() == self.policy.password.as_bytes()),
                    );
                }
                ToMonitor::KbdintStart(_) => send(
                    rpc,
                    &privsep::KbdintPrompts {
                        name: "Prompt".into(),
                        instruction: "Say the word".into(),
                        prompts: vec![privsep::Prompt {
                            text: "Word: ".into(),
                            echo: false,
                        }],
                    },
                ),
                ToMonitor::KeyQuery(request) => {
                    let acceptable = request.key == self.policy.key;
                    let outcome = if acceptable { None } else { Some(judge(false)) };
                    send(
                        rpc,
                        &KeyAnswer {
                            acceptable,
                            methods: methods.clone(),
                            too_many_failures: outcome == Some(AuthOutcome::TooManyFailures),
                        },
                    );
                }
                ToMonitor::KeyVerify(request) => send(rpc, &judge(request.key == self.policy.key)),
                ToMonitor::Snapshot(snapshot) => return Some((snapshot, session_id, version)),
                other => panic!("{other:?} before a login"),
            }
        }
    }

    fn grant(
        &self,
        options: &config::ServerOptions,
        session_id: Vec<u8>,
        version: String,
    ) -> SessionGrant {
        let own = sys::process::own_credentials().expect("our own ids");
        SessionGrant {
            user: "tester".into(),
            uid: own.uid,
            gid: own.gid,
            groups: own.groups,
            home: self.policy.home.clone(),
            shell: self.policy.shell.clone(),
            change_user: false,
            chroot: None,
            forced_command: self.policy.forced_command.clone(),
            restrictions: self.policy.restrictions.clone(),
            key_environment: vec![("FROM_KEY".into(), "1".into())],
            pam_environment: vec![
                ("FROM_PAM".into(), "1".into()),
                ("SSH_AUTH_INFO_0".into(), "x".into()),
            ],
            session_id,
            remote_address: self.peer.ip().to_string(),
            remote_port: self.peer.port(),
            local_address: self.address.ip().to_string(),
            local_port: self.address.port(),
            client_version: version,
            options: options.encode(),
            host_keys: host_keys(),
            login_messages: self.policy.login_messages.clone(),
            pam_shows_motd: false,
            auth_info: "publickey ssh-ed25519 AAAA\n".into(),
            log_level: LogLevel::Debug1,
            log_verbose: Vec::new(),
            password_expired: self.policy.password_expired,
            selinux_context: None,
        }
    }

    fn session(&self, rpc: &OwnedFd) {
        while let Some(frame) = receive(rpc) {
            match ToMonitor::decode(&frame).expect("a message that is permitted") {
                ToMonitor::Log(line) => self.note(|record| record.log.push(line.text)),
                ToMonitor::SignExchangeHash(request) => {
                    send(rpc, &sign(request.key_index, &request.hash))
                }
                ToMonitor::HostkeysProve(request) => {
                    let grant_id = self.records.lock().expect("no panic").len();
                    assert!(grant_id > 0);
                    let _ = request;
                    send(
                        rpc,
                        &HostkeysProof {
                            signatures: Vec::new(),
                        },
                    );
                }
                other => panic!("{other:?} in a session that is not root's"),
            }
        }
    }
}

/// What the auth processes of all tests have as their root.
fn empty_directory() -> PathBuf {
    std::env::temp_dir().join(format!("fulmar-chain-empty-{}", std::process::id()))
}

/// Removes what the tests had in common.
pub fn clear() {
    // There is none where no test ran as root.
    let _ = std::fs::remove_dir(empty_directory());
}

/// As root, the auth process needs an empty directory and a user of its own; else Landlock.
fn cage() -> Option<(String, (u32, u32))> {
    if !sys::process::is_root() {
        return None;
    }
    let directory = empty_directory();
    std::fs::create_dir_all(&directory).expect("an empty directory");
    let user = sys::sandbox::unprivileged_user().expect("a user without rights");
    Some((
        directory.to_str().expect("text").to_owned(),
        (user.uid, user.gid),
    ))
}

fn sign(index: u32, hash: &[u8]) -> Signature {
    let key = host_key(u8::try_from(index).expect("a small index"));
    let algorithm = SignatureAlgorithm::from_name("ssh-ed25519").expect("a known algorithm");
    Signature {
        blob: key.sign(algorithm, hash).expect("a signature"),
    }
}

/// What a session of this policy is granted, as another user where `user` names one.
pub fn grant_for(policy: Policy, user: Option<u32>) -> SessionGrant {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let connection = Connection {
        policy,
        peer: nowhere,
        address: nowhere,
        records: Arc::default(),
        slot: 0,
    };
    let mut grant = connection.grant(&connection.options(), vec![0; 32], "SSH-2.0-x".into());
    if let Some(uid) = user {
        grant.change_user = true;
        (grant.uid, grant.gid, grant.groups) = (uid, uid, vec![uid]);
    }
    grant
}

/// A role on this connection, with its socket to the monitor.
pub fn start_role(role: &str, network: &OwnedFd) -> (sys::process::Child, OwnedFd) {
    let (rpc, theirs) = sys::socket::stream_pair().expect("a pair");
    (spawn(role, network, theirs, None), rpc)
}

fn spawn(
    role: &str,
    network: &OwnedFd,
    rpc: OwnedFd,
    start: Option<OwnedFd>,
) -> sys::process::Child {
    let mut command = SelfExe::open()
        .expect("ourselves")
        .command()
        .expect("a command");
    let null = sys::io::null().expect("the null device");
    command
        .arg(role)
        .fd_shared(&null, 0)
        .fd_shared(&null, 1)
        .fd_shared(sys::io::stderr(), 2);
    command
        .fd_shared(network.as_fd(), roles::NETWORK_FD)
        .fd(rpc, roles::RPC_FD);
    if let Some(start) = start {
        command.fd(start, roles::AUTH_START_FD);
    }
    command
        .inherit_env()
        .env(crate::IS_A_ROLE, "1")
        .spawn()
        .expect("a process")
}

fn describe(status: ExitStatus) -> String {
    match status {
        ExitStatus::Exited(code) => format!("exit {code}"),
        ExitStatus::Signaled { signal, .. } => format!("signal {}", signal.as_raw()),
    }
}

pub fn send<M: Message>(rpc: &OwnedFd, message: &M) {
    // The other side may be gone: then its end is what the test looks at.
    let _ = sys::io::write_all(rpc, &message.encode_frame());
}

fn receive(rpc: &OwnedFd) -> Option<Frame> {
    let mut header = [0; privsep::frame::HEADER_BYTES];
    read_exact(rpc, &mut header)?;
    let header = FrameHeader::parse(header).expect("a good header");
    let mut frame = Frame {
        number: header.number,
        body: vec![0; header.body_bytes],
    };
    read_exact(rpc, &mut frame.body)?;
    Some(frame)
}

fn read_exact(rpc: &OwnedFd, buffer: &mut [u8]) -> Option<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let count = sys::io::read(rpc, &mut buffer[filled..]).ok()?;
        if count == 0 {
            return None;
        }
        filled += count;
    }
    Some(())
}
