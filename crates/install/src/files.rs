//! The files of an installation and their contents.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use keys::{KeySpec, PresentedKey, PrivateKey};
use zeroize::Zeroizing;

use super::{HAS_SERVER, InstallSettings};

/// Manual pages and completions: where below the prefix, and what (made by build.rs).
pub(super) const SHARED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/share.rs"));

/// Programs that the binary is when it is called by their names.
const LINKS: &[&str] = &[
    "ssh",
    #[cfg(target_env = "gnu")]
    "sshd",
    "sftp-server",
    "scp",
    "sftp",
    "ssh-keygen",
    "ssh-keyscan",
    "ssh-copy-id",
    "ssh-agent",
    "ssh-add",
];

/// One file to write.
#[derive(Debug)]
pub(super) enum Planned {
    Binary {
        path: PathBuf,
        from: PathBuf,
        mode: u32,
    },
    Link {
        path: PathBuf,
        target: PathBuf,
    },
    Text {
        path: PathBuf,
        text: String,
        mode: u32,
        keep: bool,
    },
    Secret {
        path: PathBuf,
        text: Zeroizing<String>,
    },
}

impl Planned {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Binary { path, .. }
            | Self::Link { path, .. }
            | Self::Text { path, .. }
            | Self::Secret { path, .. } => path,
        }
    }

    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Binary { .. } => "copy",
            Self::Link { .. } => "link",
            Self::Text { .. } | Self::Secret { .. } => "write",
        }
    }

    /// True if `path` already has this content and mode.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let is_file = |text: &[u8], mode: u32| {
            let is_plain = fs::symlink_metadata(path)
                .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o7777 == mode);
            is_plain && fs::read(path).is_ok_and(|found| found == text)
        };
        match self {
            Self::Binary { from, mode, .. } => {
                fs::read(from).is_ok_and(|text| is_file(&text, *mode))
            }
            Self::Link { target, .. } => fs::read_link(path).is_ok_and(|found| found == *target),
            Self::Text { text, mode, .. } => is_file(text.as_bytes(), *mode),
            Self::Secret { .. } => false,
        }
    }

    /// A file that a person edits is not written over.
    pub(super) fn keeps_existing(&self) -> bool {
        matches!(self, Self::Text { keep: true, .. } | Self::Secret { .. })
    }
}

/// All files of an installation.
#[derive(Debug)]
pub(super) struct InstallPlan {
    pub(super) files: Vec<Planned>,
}

impl InstallPlan {
    pub(super) fn new(settings: &InstallSettings) -> io::Result<Self> {
        let binary = settings.prefix.join("bin/fulmar");
        let links = settings.prefix.join("lib/fulmar/bin");
        let mut files = vec![Planned::Binary {
            path: binary.clone(),
            from: std::env::current_exe()?,
            mode: 0o755,
        }];
        if let Some(mode) = settings.keysign {
            // A copy, because a link has no mode of its own.
            files.push(Planned::Binary {
                path: settings.keysign_path(),
                from: std::env::current_exe()?,
                mode,
            });
        }
        // Packages have relative links, which also lead somewhere below another root.
        let target = match settings.package {
            true => PathBuf::from("../../../bin/fulmar"),
            false => binary.clone(),
        };
        for name in LINKS {
            files.push(Planned::Link {
                path: links.join(name),
                target: target.clone(),
            });
        }
        for (place, text) in SHARED.iter().filter(|(place, _)| is_for_this_build(place)) {
            files.push(Planned::Text {
                path: settings.prefix.join(place),
                text: (*text).to_owned(),
                mode: 0o644,
                keep: false,
            });
        }
        if HAS_SERVER {
            files.extend(of_server(settings)?);
        }
        // A package that is unpacked anywhere cannot know the path that a unit names.
        if HAS_SERVER || !settings.package {
            files.extend(units(settings, &binary).into_iter().map(unchanged));
        }
        Ok(Self { files })
    }

    /// What to do next.
    pub(super) fn advice(&self, settings: &InstallSettings) -> String {
        let links = settings.prefix.join("lib/fulmar/bin");
        let port = if settings.replace_sshd {
            "the port of the configuration, in place of OpenSSH's service".to_string()
        } else {
            format!("port {}", settings.port)
        };
        let remove = format!("fulmar install --remove{}", settings.places());
        let mut start = String::new();
        if HAS_SERVER && settings.root == Path::new("/") && !settings.replace_openssh {
            let disable = match enabled_openssh_units(settings) {
                units if settings.replace_sshd && !units.is_empty() => {
                    format!("systemctl disable {} && ", units.join(" "))
                }
                _ => String::new(),
            };
            start = format!(
                "To start the server on {port}: systemctl daemon-reload && {disable}systemctl enable --now fulmar-sshd\n"
            );
        }
        format!(
            "The programs by OpenSSH's names are in {}; put it first in PATH to use them.\n\
             {start}To uninstall: {remove}",
            links.display()
        )
    }
}

/// OpenSSH's units that the next start of the machine would start, too.
pub(super) fn enabled_openssh_units(settings: &InstallSettings) -> Vec<&'static str> {
    let is_enabled = |unit: &&str| {
        ["multi-user", "sockets"].iter().any(|target| {
            let link = format!("/etc/systemd/system/{target}.target.wants/{unit}");
            fs::symlink_metadata(settings.below_root(Path::new(&link))).is_ok()
        })
    };
    OPENSSH_UNITS.split(' ').filter(is_enabled).collect()
}

/// True for a page or completion of what this build has.
fn is_for_this_build(place: &str) -> bool {
    HAS_SERVER
        || !["/fulmar-sshd.8", "/fulmar_sshd_config.5"]
            .iter()
            .any(|page| place.ends_with(page))
}

/// A text that a later installation replaces.
fn unchanged((path, text): (PathBuf, String)) -> Planned {
    Planned::Text {
        path,
        text,
        mode: 0o644,
        keep: false,
    }
}

/// What only the server needs, besides its units.
fn of_server(settings: &InstallSettings) -> io::Result<Vec<Planned>> {
    let mut files = match settings.openssh_config {
        true => Vec::new(),
        false => own_configuration(settings)?,
    };
    files.push(Planned::Text {
        path: "/etc/pam.d/fulmar".into(),
        text: pam_service(settings),
        mode: 0o644,
        keep: true,
    });
    if settings.is_below_usr() {
        let texts = [("sysusers.d", SYSTEM_USER), ("tmpfiles.d", EMPTY_ROOT)];
        files.extend(texts.map(|(folder, text)| {
            let path = format!("/usr/lib/{folder}/fulmar.conf");
            unchanged((path.into(), text.to_owned()))
        }));
    }
    Ok(files)
}

fn own_configuration(settings: &InstallSettings) -> io::Result<Vec<Planned>> {
    let directory = Path::new("/etc/fulmar");
    let key_path = directory.join("ssh_host_ed25519_key");
    let mut files = vec![Planned::Text {
        path: directory.join("sshd_config"),
        text: format!(
            "# Configuration of fulmar-sshd; the keywords are those of sshd_config(5).\n\
             HostKey {}\nUsePAM yes\n# PAM shows it.\nPrintMotd no\nSubsystem sftp internal-sftp\n\
             AcceptEnv LANG LC_*\n",
            key_path.display()
        ),
        mode: 0o644,
        keep: true,
    }];
    // Each machine needs a key of its own.
    if !settings.package && !settings.below_root(&key_path).exists() {
        let key = PrivateKey::generate(KeySpec::Ed25519).map_err(io::Error::other)?;
        let public = PresentedKey::Plain(key.public().clone());
        files.push(Planned::Secret {
            path: key_path.clone(),
            text: keys::private_file::write_openssh(&key, "", None).map_err(io::Error::other)?,
        });
        files.push(Planned::Text {
            path: key_path.with_extension("pub"),
            text: keys::public_file::to_line(&public, "") + "\n",
            mode: 0o644,
            keep: true,
        });
    }
    Ok(files)
}

/// Whose shared parts a PAM stack is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PamStack {
    /// `common-auth` and its like.
    Debian,
    /// `password-auth`.
    RedHat,
    /// `system-remote-login`.
    Arch,
}

impl PamStack {
    /// With the file below /etc/pam.d by which each is known.
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Debian, "debian", "common-auth"),
        (Self::RedHat, "redhat", "password-auth"),
        (Self::Arch, "arch", "system-remote-login"),
    ];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, known, _)| *known == name)
            .map(|(stack, ..)| stack)
    }

    /// The one that this machine has, in the root directory that is given.
    fn below(root: &Path) -> Option<Self> {
        let services = root.join("etc/pam.d");
        let mut all = Self::ALL.into_iter();
        all.find(|(.., file)| services.join(file).exists())
            .map(|(stack, ..)| stack)
    }
}

/// The PAM stack that the distribution gives its own sshd, by the names of its shared parts: as
/// `--pam` says, as found below the root directory, or, if neither, as on this machine.
fn pam_service(settings: &InstallSettings) -> String {
    let stack = settings
        .pam
        .or_else(|| PamStack::below(&settings.root))
        .or_else(|| PamStack::below(Path::new("/")));
    let text = match stack {
        Some(PamStack::Debian) => DEBIAN_PAM,
        Some(PamStack::RedHat) => RED_HAT_PAM,
        Some(PamStack::Arch) | None => ARCH_PAM,
    };
    format!("# PAM stack of Fulmar's sshd (service \"fulmar\").\n{text}")
}

/// The modules of SELinux are skipped where they are not installed. Message of the day and mail
/// are shown once: PrintMotd is off.
const DEBIAN_PAM: &str = "\
@include common-auth
account required pam_nologin.so
@include common-account
session [success=ok ignore=ignore module_unknown=ignore default=bad] pam_selinux.so close
session required pam_loginuid.so
session optional pam_keyinit.so force revoke
@include common-session
session optional pam_motd.so motd=/run/motd.dynamic
session optional pam_motd.so noupdate
session optional pam_mail.so standard noenv
session required pam_limits.so
session required pam_env.so
session required pam_env.so envfile=/etc/default/locale
session [success=ok ignore=ignore module_unknown=ignore default=bad] pam_selinux.so open
@include common-password
";

const RED_HAT_PAM: &str = "\
auth substack password-auth
auth include postlogin
account required pam_sepermit.so
account required pam_nologin.so
account include password-auth
password include password-auth
session required pam_selinux.so close
session required pam_loginuid.so
session required pam_selinux.so open env_params
session required pam_namespace.so
session optional pam_keyinit.so force revoke
session optional pam_motd.so
session include password-auth
session include postlogin
";

/// system-remote-login has the modules of messages, mail and audit itself.
const ARCH_PAM: &str = "\
auth include system-remote-login
account required pam_nologin.so
account include system-remote-login
password include system-remote-login
session include system-remote-login
";

/// For sysusers.d(5): the user of the processes that talk to clients before their login.
const SYSTEM_USER: &str =
    "u fulmar - \"Fulmar SSH before the login\" /run/fulmar-empty /usr/sbin/nologin\n";

/// For tmpfiles.d(5): the root directory of these processes.
const EMPTY_ROOT: &str = "d /run/fulmar-empty 0755 root root -\n";

/// The units of systemd with their places: the server as one service, or with a process for each
/// connection that a socket starts; and the agent of each user who enables it.
pub(super) fn units(settings: &InstallSettings, binary: &Path) -> Vec<(PathBuf, String)> {
    let folder = match settings.is_below_usr() {
        true => Path::new("/usr/lib/systemd"),
        false => Path::new("/etc/systemd"),
    };
    let agent = [
        ("user/fulmar-agent.service", agent_unit(binary)),
        ("user/fulmar-agent.socket", AGENT_SOCKET.to_owned()),
    ];
    let server = [
        ("system/fulmar-sshd.service", unit(settings, binary)),
        ("system/fulmar-sshd.socket", socket(settings)),
        (
            "system/fulmar-sshd@.service",
            connection_unit(settings, binary),
        ),
    ];
    server
        .into_iter()
        .filter(|_| HAS_SERVER)
        .chain(agent)
        .map(|(name, text)| (folder.join(name), text))
        .collect()
}

/// OpenSSH's units, by the names of Debian and of Red Hat.
const OPENSSH_UNITS: &str = "ssh.service sshd.service ssh.socket sshd.socket";

fn socket(settings: &InstallSettings) -> String {
    // The port of OpenSSH's configuration is not read: a socket unit has its own.
    let (port, others) = match settings.replace_sshd {
        true => (22, format!("fulmar-sshd.service {OPENSSH_UNITS}")),
        false => (settings.port, "fulmar-sshd.service".to_owned()),
    };
    // Without an order, systemd stops the others and opens the port at once.
    format!(
        "[Unit]\nDescription=Fulmar SSH server, a process for each connection\n\
         Documentation=man:fulmar-sshd(8)\nConflicts={others}\nBefore={others}\n\
         ConditionPathExists=!/etc/ssh/sshd_not_to_be_run\n\n\
         [Socket]\nListenStream={port}\nAccept=yes\n\n[Install]\nWantedBy=sockets.target\n"
    )
}

fn connection_unit(settings: &InstallSettings, binary: &Path) -> String {
    let (binary, config) = (binary.display(), configuration(settings));
    format!(
        "[Unit]\nDescription=Fulmar SSH connection\nDocumentation=man:fulmar-sshd(8)\n\
         After=nss-user-lookup.target auditd.service\nCollectMode=inactive-or-failed\n\n\
         [Service]\nExecStart=-{binary} sshd -i -f {config}\nStandardInput=socket\n"
    )
}

fn configuration(settings: &InstallSettings) -> &'static str {
    match settings.openssh_config {
        true => "/etc/ssh/sshd_config",
        false => "/etc/fulmar/sshd_config",
    }
}

fn unit(settings: &InstallSettings, binary: &Path) -> String {
    let (binary, config) = (binary.display(), configuration(settings));
    let (port, conflicts) = if settings.replace_sshd {
        // In this order: a port is free before it is opened.
        let conflicts = format!("Conflicts={OPENSSH_UNITS}\nAfter={OPENSSH_UNITS}\n");
        (String::new(), conflicts)
    } else {
        // Beside OpenSSH's: a port and a process number of its own, whatever the file says.
        let flags = format!(" -p {} -o PidFile=/run/fulmar-sshd.pid", settings.port);
        (flags, String::new())
    };
    format!(
        "[Unit]\nDescription=Fulmar SSH server\nDocumentation=man:fulmar-sshd(8)\n\
         After=network.target nss-user-lookup.target auditd.service\n\
         ConditionPathExists=!/etc/ssh/sshd_not_to_be_run\n{conflicts}\n\
         [Service]\nType=notify\nExecStartPre={binary} sshd -t -f {config}\n\
         ExecStart={binary} sshd -D -f {config}{port}\nExecReload={binary} sshd -t -f {config}\n\
         ExecReload=/bin/kill -HUP $MAINPID\nKillMode=process\nRestart=on-failure\n\
         RestartPreventExitStatus=255\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

/// The agent's socket, of each user who enables it.
const AGENT_SOCKET: &str = "\
[Unit]
Description=Socket of the Fulmar agent
Documentation=man:fulmar-agent(1)
Before=graphical-session-pre.target

[Socket]
SocketMode=0600
ListenStream=%t/fulmar_agent
ExecStartPost=/bin/sh -c 'systemctl --user set-environment SSH_AUTH_SOCK=%t/fulmar_agent'
ExecStopPre=/bin/sh -c 'systemctl --user unset-environment SSH_AUTH_SOCK'

[Install]
WantedBy=sockets.target
";

/// The agent, which the first connection to its socket starts.
fn agent_unit(binary: &Path) -> String {
    let binary = binary.display();
    format!(
        "[Unit]\nDescription=Fulmar agent\nDocumentation=man:fulmar-agent(1)\n\
         Requires=fulmar-agent.socket\n\n\
         [Service]\nEnvironment=SSH_ASKPASS_REQUIRE=force\nExecStart={binary} agent -D\n\
         SuccessExitStatus=2\n"
    )
}
