//! Fulmar in the place of an installed OpenSSH, and back again.
//!
//! OpenSSH's programs stay beside the links that take their names, as NAME.openssh: a hard link first,
//! then the new link is renamed over the name, so that the name is never missing. dpkg records a
//! diversion for each, so that an upgrade of OpenSSH writes to the other name. What OpenSSH does
//! otherwise on this machine goes into files of their own in sshd_config.d and ssh_config.d; no
//! file of OpenSSH is written. A record lists each step before it is taken, for `--revert`.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use migrate::{ASIDE, Consequence, Machine, SSH_CONFIG, SSHD_CONFIG};
use sys::file::FollowLinks;

use super::{InstallSettings, explain};

/// OpenSSH's places that are taken, and whether also where nothing is.
const PROGRAMS: [(&str, bool); 12] = [
    ("/usr/bin/ssh", true),
    ("/usr/bin/scp", true),
    ("/usr/bin/sftp", true),
    ("/usr/bin/ssh-keygen", true),
    ("/usr/bin/ssh-keyscan", true),
    ("/usr/bin/ssh-copy-id", true),
    ("/usr/bin/ssh-agent", true),
    ("/usr/bin/ssh-add", true),
    ("/usr/sbin/sshd", false),
    ("/usr/lib/openssh/sftp-server", false),
    ("/usr/libexec/openssh/sftp-server", false),
    ("/usr/lib/ssh/sftp-server", false),
];
/// The server among them.
const SERVER: &str = "/usr/sbin/sshd";
/// The lines for the server; the directory is read before the rest of sshd_config.
const SERVER_LINES: &str = "/etc/ssh/sshd_config.d/zz-fulmar.conf";
/// The lines for the client.
const CLIENT_LINES: &str = "/etc/ssh/ssh_config.d/zz-fulmar.conf";
/// The keyword that OpenSSH has since version 9.8, which takes the PAM service from the name of the program before.
const PAM_KEYWORD: &str = "PAMServiceName";
/// Largest record that is read, bytes.
const MAX_RECORD_BYTES: u64 = 1 << 16;

/// A step that was or is about to be taken. In the record, a line of the kind and the path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TakenStep {
    /// The name of a program.
    Program(PathBuf),
    /// A file of configuration lines.
    Lines(PathBuf),
    /// The owner and mode of a program in dpkg's database, so that neither an upgrade nor a script
    /// of OpenSSH's package changes them.
    Mode(PathBuf),
}

impl TakenStep {
    fn to_line(&self) -> String {
        let (kind, path) = match self {
            Self::Program(path) => ("program", path),
            Self::Lines(path) => ("lines", path),
            Self::Mode(path) => ("mode", path),
        };
        format!("{kind}  {}\n", path.display())
    }

    fn from_line(line: &str) -> Option<Self> {
        match line.split_once("  ")? {
            ("program", path) => Some(Self::Program(path.into())),
            ("lines", path) => Some(Self::Lines(path.into())),
            ("mode", path) => Some(Self::Mode(path.into())),
            _ => None,
        }
    }
}

fn record_path(settings: &InstallSettings) -> PathBuf {
    settings.below_root(&settings.prefix.join("lib/fulmar/replaced"))
}

/// The steps that were taken; none if nothing was replaced.
fn record(settings: &InstallSettings) -> io::Result<Vec<TakenStep>> {
    match sys::file::read_bounded(record_path(settings), MAX_RECORD_BYTES, FollowLinks::Refuse) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            Ok(text.lines().filter_map(TakenStep::from_line).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Lets one installation at a time work on a machine until the returned file is closed: two that plan
/// before either acts would each take the other's links for OpenSSH's programs. None for what changes
/// nothing, and in a root directory that has no /run: no machine runs there.
///
/// # Errors
/// If the lock's file cannot be made.
pub(super) fn lock(settings: &InstallSettings) -> io::Result<Option<fs::File>> {
    let path = settings.below_root(Path::new("/run/fulmar-install.lock"));
    if settings.dry_run || !path.parent().is_some_and(Path::is_dir) {
        return Ok(None);
    }
    // Nobody else can open it, and hold the lock for ever.
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(explain("open", &path))?;
    sys::file::lock(&file, true).map_err(explain("lock", &path))?;
    Ok(Some(file))
}

/// True if OpenSSH's place is taken.
pub(super) fn is_replaced(settings: &InstallSettings) -> io::Result<bool> {
    Ok(!record(settings)?.is_empty())
}

/// The steps of a replacement, decided before anything is changed.
pub(super) struct ReplacementPlan {
    taken: Vec<TakenStep>,
    /// Names to take and those that are taken already, with the group and mode that dpkg is to keep.
    programs: Vec<(PathBuf, Option<(u32, u32)>)>,
    /// Files of lines with their text.
    lines: Vec<(PathBuf, String)>,
}

/// Takes OpenSSH's place. A second time it takes what has come since, and leaves the files of lines
/// as they are.
pub(super) fn replace(plan: ReplacementPlan, settings: &InstallSettings) -> io::Result<()> {
    let mut taken = plan.taken;
    let target = settings.prefix.join("bin/fulmar");
    for (path, own_mode) in &plan.programs {
        println!("take    {} ({})", path.display(), was(path, settings));
        if settings.dry_run {
            continue;
        }
        if let Some((gid, mode)) = own_mode {
            note(&mut taken, TakenStep::Mode(path.clone()), settings)?;
            keep_mode(path, *gid, *mode, settings)?;
        }
        note(&mut taken, TakenStep::Program(path.clone()), settings)?;
        take(path, &target, settings)?;
    }
    for (path, text) in &plan.lines {
        println!("write   {}", path.display());
        if !settings.dry_run {
            note(&mut taken, TakenStep::Lines(path.clone()), settings)?;
            let place = settings.below_root(path);
            sys::file::replace(&place, text.as_bytes(), 0o644).map_err(explain("write", &place))?;
        }
    }
    if !settings.dry_run {
        println!(
            "\nOpenSSH's place is taken. A server that runs goes on until it is restarted (systemctl restart ssh or sshd);\n\
             sessions survive that. To go back: fulmar install --revert{}",
            settings.places()
        );
    }
    Ok(())
}

/// Says where OpenSSH's program goes whose name is about to be taken, or that there is none.
fn was(path: &Path, settings: &InstallSettings) -> String {
    let place = settings.below_root(path);
    let is_openssh = fs::symlink_metadata(&place).is_ok() && !is_link_to_fulmar(&place);
    match is_openssh || fs::symlink_metadata(aside(&place)).is_ok() {
        true => format!("OpenSSH's is {}{ASIDE}", path.display()),
        false => "OpenSSH's is not installed".to_owned(),
    }
}

/// Looks at the machine, and prints where Fulmar differs on it. Changes nothing.
///
/// # Errors
/// If the place cannot be taken: the message says what is to be done first.
pub(super) fn plan(settings: &InstallSettings) -> io::Result<ReplacementPlan> {
    let taken = record(settings)?;
    let machine = Machine::at(&settings.root);
    let target = settings.prefix.join("bin/fulmar");
    let mut programs = Vec::new();
    for (path, always) in PROGRAMS {
        let path = PathBuf::from(path);
        let place = settings.below_root(&path);
        let exists = fs::symlink_metadata(&place).is_ok();
        let is_ours = fs::read_link(&place).is_ok_and(|found| found == target);
        let has_folder = place.parent().is_some_and(Path::is_dir);
        let is_wanted = exists || always && has_folder;
        if is_ours || !is_wanted {
            continue;
        }
        let aside = aside(&place);
        let has_aside = fs::symlink_metadata(&aside).is_ok();
        let is_known = taken.contains(&TakenStep::Program(path.clone()));
        if !is_known && is_link_to_fulmar(&place) {
            return Err(io::Error::other(format!(
                "{} is a link to another installation of Fulmar: run its `fulmar install --revert` first",
                place.display()
            )));
        }
        refuse_directory(&place)?;
        check_diversion(&path, settings)?;
        if !is_known && has_aside {
            return Err(io::Error::other(format!(
                "{} is there already, and not by Fulmar: remove or rename it",
                aside.display()
            )));
        }
        // With diversions, OpenSSH's upgrades go to the other name: this file is somebody else's.
        let is_foreign = !is_link_to_fulmar(&place) && !same_file(&place, &aside);
        if has_diversions(settings) && exists && has_aside && is_foreign {
            return Err(io::Error::other(format!(
                "{} has been changed, and not by OpenSSH's package: remove or rename it",
                place.display()
            )));
        }
        let own_mode = own_mode(&path, settings)?;
        programs.push((path, own_mode));
    }
    let mut lines = Vec::new();
    let mut server_lines = Vec::new();
    let server = migrate::server(&machine).map_err(|error| {
        io::Error::other(format!("sshd would not start with {SSHD_CONFIG}: {error}"))
    })?;
    for (name, config, path, found) in [
        ("sshd", SSHD_CONFIG, SERVER_LINES, server),
        ("ssh", SSH_CONFIG, CLIENT_LINES, migrate::client(&machine)),
    ] {
        let path = PathBuf::from(path);
        if found.is_empty()
            || taken.contains(&TakenStep::Lines(path.clone()))
            || !machine.has(config)
        {
            continue;
        }
        println!("{name}, where its defaults differ from OpenSSH's:");
        for Consequence { what, lines } in &found {
            println!("  - {what}");
            if !settings.fulmar_defaults {
                println!("    as with OpenSSH: {}", lines.join("; "));
            }
        }
        if settings.fulmar_defaults {
            check_host_key(&found)?;
            continue;
        }
        if !machine.reads_drop_ins(config) {
            let folder = Path::new(config).with_extension("d");
            return Err(io::Error::other(format!(
                "{config} does not read {0}: write \"Include {0}/*.conf\" at its top, or use --fulmar-defaults",
                folder.display()
            )));
        }
        if name == "sshd" && !has_diversions(settings) {
            check_openssh_starts(&machine, &found)?;
        }
        check_lines_place(&settings.below_root(&path))?;
        lines.push((path, text_of(&found)));
        if name == "sshd" {
            server_lines = found.into_iter().flat_map(|it| it.lines).collect();
        }
    }
    let takes_server = programs.iter().any(|(path, _)| path == Path::new(SERVER));
    if takes_server && !machine.openssh_knows(PAM_KEYWORD) {
        tell_named_servers(settings);
    }
    if takes_server && machine.has(SSHD_CONFIG) {
        check_server_starts(&server_lines, settings)?;
    }
    Ok(ReplacementPlan {
        taken,
        programs,
        lines,
    })
}

/// Prints the servers whose PAM service changes with the program.
fn tell_named_servers(settings: &InstallSettings) {
    for (path, name) in named_servers(settings) {
        println!(
            "{}: its PAM service is no longer {name:?}, but that of the configuration\n    as with OpenSSH: start it \
             with -o {PAM_KEYWORD}={name}",
            path.display()
        );
    }
}

/// Links to OpenSSH's server by a name of their own that has a PAM service, with that name: OpenSSH before version 9.8 takes the
/// name for that of the service.
fn named_servers(settings: &InstallSettings) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"] {
        let folder = Path::new(folder);
        let entries = fs::read_dir(settings.below_root(folder))
            .into_iter()
            .flatten();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_server =
                fs::read_link(entry.path()).is_ok_and(|target| target.ends_with("sshd"));
            let service = Path::new("/etc/pam.d").join(&name);
            if is_server && name != "sshd" && settings.below_root(&service).exists() {
                found.push((folder.join(&name), name));
            }
        }
    }
    found
}

/// Refuses the place of a program that a directory has.
fn refuse_directory(place: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(place).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let text = format!("{} is a directory: remove or rename it", place.display());
    Err(io::Error::other(text))
}

/// Refuses a place for lines that cannot be written, or that somebody else's lines have.
fn check_lines_place(place: &Path) -> io::Result<()> {
    let problem = match place.parent() {
        _ if fs::symlink_metadata(place).is_ok() => {
            "is there already, and not by Fulmar: rename it".to_owned()
        }
        Some(folder) => match sys::file::is_writable(folder) {
            Ok(()) => return Ok(()),
            Err(error) => format!("cannot be written ({error}): make its directory, writable"),
        },
        None => return Ok(()),
    };
    Err(io::Error::other(format!("{} {problem}", place.display())))
}

/// Refuses a name that dpkg diverts to another one than ours: an upgrade of OpenSSH would write there.
fn check_diversion(path: &Path, settings: &InstallSettings) -> io::Result<()> {
    match diverted_to(path, settings)? {
        Some(other) if other != aside(path) => Err(io::Error::other(format!(
            "{0} is diverted to {1} already: remove that diversion first (dpkg-divert --rename --remove {0})",
            path.display(),
            other.display()
        ))),
        _ => Ok(()),
    }
}

/// Runs the check of a server that starts, with the lines that are about to be written. In another
/// root directory its files are not those of the machine, so that nothing is checked.
fn check_server_starts(lines: &[String], settings: &InstallSettings) -> io::Result<()> {
    if settings.root != Path::new("/") {
        return Ok(());
    }
    // Also if an upgrade has replaced the program that runs.
    let mut command = Command::new("/proc/self/exe");
    command.args(["sshd", "-t", "-f", SSHD_CONFIG]);
    command.args(lines.iter().flat_map(|line| ["-o", line]));
    let output = command.stdin(std::process::Stdio::null()).output();
    let output = output.map_err(|error| {
        io::Error::other(format!(
            "whether sshd would start cannot be checked (is /proc mounted?): {error}"
        ))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "sshd would not start with {SSHD_CONFIG}:\n{}",
        said.trim_end()
    )))
}

/// Refuses our defaults where the ECDSA key is the only host key: the server would have none.
fn check_host_key(found: &[Consequence]) -> io::Result<()> {
    let only = ["HostKey /etc/ssh/ssh_host_ecdsa_key"];
    match found.iter().any(|consequence| consequence.lines == only) {
        true => Err(io::Error::other(
            "sshd would not start: the only host key is /etc/ssh/ssh_host_ecdsa_key, which is not used by default; \
             make others with ssh-keygen -A, or leave --fulmar-defaults out",
        )),
        false => Ok(()),
    }
}

/// Refuses lines with which OpenSSH's server would not start: without diversions, an upgrade of its
/// package writes it to its name again and restarts it, and nobody could log in.
fn check_openssh_starts(machine: &Machine, found: &[Consequence]) -> io::Result<()> {
    let lines = found.iter().flat_map(|consequence| &consequence.lines);
    let mut keywords = lines.filter_map(|line| line.split(' ').next());
    match keywords.find(|keyword| !machine.openssh_knows(keyword)) {
        None => Ok(()),
        Some(keyword) => Err(io::Error::other(format!(
            "this machine's OpenSSH does not know {keyword}: its server would not start after the next upgrade of its \
             package, which writes it to its name again; use --fulmar-defaults"
        ))),
    }
}

fn text_of(found: &[Consequence]) -> String {
    let mut text =
        "# Written by fulmar install --replace-openssh: what OpenSSH does on this machine where\n\
                    # Fulmar's defaults differ. fulmar install --revert removes it.\n"
            .to_owned();
    for consequence in found {
        text.push_str(&format!("\n# {}\n", consequence.what));
        text.extend(consequence.lines.iter().flat_map(|line| [line, "\n"]));
    }
    text
}

/// Records a step before it is taken.
fn note(taken: &mut Vec<TakenStep>, step: TakenStep, settings: &InstallSettings) -> io::Result<()> {
    if taken.contains(&step) {
        return Ok(());
    }
    taken.push(step);
    write_record(taken, settings)
}

fn write_record(taken: &[TakenStep], settings: &InstallSettings) -> io::Result<()> {
    let path = record_path(settings);
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(explain("make", folder))?;
    let text: String = taken.iter().map(TakenStep::to_line).collect();
    sys::file::replace(&path, text.as_bytes(), 0o644).map_err(explain("write", &path))
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(ASIDE);
    name.into()
}

fn take(path: &Path, target: &Path, settings: &InstallSettings) -> io::Result<()> {
    let place = settings.below_root(path);
    let kept = aside(&place);
    let fresh = fresh(&place);
    remove_if_there(&fresh).map_err(explain("remove", &fresh))?;
    // Without diversions, an upgrade of OpenSSH has written its program to its name again: the one
    // from before goes.
    let is_there = fs::symlink_metadata(&place).is_ok();
    if is_there && !is_link_to_fulmar(&place) && !same_file(&place, &kept) {
        fs::hard_link(&place, &fresh).map_err(explain("link", &fresh))?;
        fs::rename(&fresh, &kept).map_err(explain("rename", &kept))?;
    }
    symlink(target, &fresh).map_err(explain("link", &fresh))?;
    fs::rename(&fresh, &place).map_err(explain("rename", &place))?;
    divert(path, "--add", settings)
}

/// True for a link that an installation of Fulmar has made, whatever its prefix: never OpenSSH's program.
fn is_link_to_fulmar(place: &Path) -> bool {
    fs::read_link(place).is_ok_and(|target| target.ends_with("bin/fulmar"))
}

/// The name of what is about to be renamed; an interruption may leave it.
fn fresh(place: &Path) -> PathBuf {
    place.with_extension("fulmar-new")
}

/// True if dpkg manages the system: an upgrade of OpenSSH writes to the other names.
fn has_diversions(settings: &InstallSettings) -> bool {
    settings
        .below_root(Path::new("/usr/bin/dpkg-divert"))
        .exists()
}

/// `dpkg-divert` for the machine's database.
fn dpkg_divert(settings: &InstallSettings) -> Command {
    let mut command = Command::new("dpkg-divert");
    if settings.root != Path::new("/") {
        command.arg("--root").arg(&settings.root);
    }
    command
}

/// `dpkg-statoverride` for the machine's database, which has names of groups. In another root directory
/// it is run there: with `--root` it would look for them in the groups of this machine.
fn dpkg_statoverride(settings: &InstallSettings) -> Command {
    let program = "dpkg-statoverride";
    if settings.root == Path::new("/") {
        return Command::new(program);
    }
    let mut command = Command::new("chroot");
    command.arg(&settings.root).arg(program);
    command
}

/// The output of a program of dpkg; status 1 without a message is an answer, too.
fn dpkg_says(command: &mut Command) -> io::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| io::Error::other(format!("{name}: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_answer = output.status.success() || output.status.code() == Some(1) && said.is_empty();
    if !is_answer {
        return Err(io::Error::other(said.trim_end().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

/// Where dpkg diverts a path to, if it does.
fn diverted_to(path: &Path, settings: &InstallSettings) -> io::Result<Option<PathBuf>> {
    if !has_diversions(settings) {
        return Ok(None);
    }
    let said = dpkg_says(dpkg_divert(settings).arg("--truename").arg(path))?;
    let name = PathBuf::from(said);
    Ok((name != path).then_some(name))
}

/// Records or forgets the other name of a path in dpkg's database, if the machine has one.
fn divert(path: &Path, action: &str, settings: &InstallSettings) -> io::Result<()> {
    let is_ours = diverted_to(path, settings)?.is_some_and(|other| other == aside(path));
    if !has_diversions(settings) || (action == "--remove") != is_ours {
        return Ok(());
    }
    let mut command = dpkg_divert(settings);
    if action == "--remove" {
        // Else a package could not remove the diversions of a person or of another package.
        command.env_remove("DPKG_MAINTSCRIPT_PACKAGE");
    }
    command
        .args(["--quiet", "--no-rename", "--divert"])
        .arg(aside(path))
        .arg(action)
        .arg(path);
    dpkg_says(&mut command).map(drop)
}

/// The group and mode that dpkg is to keep for a program: those of one that is set-group-ID, as
/// OpenSSH's agent is, which a script of its package makes so at each upgrade, through our link.
fn own_mode(path: &Path, settings: &InstallSettings) -> io::Result<Option<(u32, u32)>> {
    let Ok(data) = fs::symlink_metadata(settings.below_root(path)) else {
        return Ok(None);
    };
    if !has_diversions(settings) || !data.is_file() || data.mode() & 0o6000 == 0 {
        return Ok(None);
    }
    // The administrator's own one stays.
    let is_kept = is_mode_kept(path, settings)?;
    Ok((!is_kept).then(|| (data.gid(), data.mode() & 0o7777)))
}

/// True if dpkg keeps an owner and mode for a path.
fn is_mode_kept(path: &Path, settings: &InstallSettings) -> io::Result<bool> {
    let mut command = dpkg_statoverride(settings);
    Ok(!dpkg_says(command.arg("--list").arg(path))?.is_empty())
}

fn keep_mode(path: &Path, gid: u32, mode: u32, settings: &InstallSettings) -> io::Result<()> {
    let words = ["root".to_owned(), format!("#{gid}"), format!("{mode:o}")];
    let mut command = dpkg_statoverride(settings);
    command.arg("--quiet").arg("--add").args(words).arg(path);
    dpkg_says(&mut command).map(drop)
}

/// dpkg keeps the mode of a program no longer; the file has it.
fn forget_mode(path: &Path, settings: &InstallSettings) -> io::Result<()> {
    if !has_diversions(settings) || settings.dry_run || !is_mode_kept(path, settings)? {
        return Ok(());
    }
    let mut command = dpkg_statoverride(settings);
    dpkg_says(command.args(["--quiet", "--remove"]).arg(path)).map(drop)
}

/// Gives OpenSSH its place back, as it was.
pub(super) fn revert(settings: &InstallSettings) -> io::Result<()> {
    let taken = record(settings)?;
    if taken.is_empty() {
        return Err(io::Error::other(format!(
            "OpenSSH's place is not taken: there is no {}",
            record_path(settings).display()
        )));
    }
    let mut left = Vec::new();
    let mut first_error = None;
    for step in taken.into_iter().rev() {
        // OpenSSH's server may not start with lines that are for ours.
        let has_lines = left.contains(&TakenStep::Lines(SERVER_LINES.into()));
        let outcome = match &step {
            TakenStep::Program(path) if path == Path::new(SERVER) && has_lines => {
                println!("keep    {} (its lines are left)", path.display());
                Ok(false)
            }
            step => undo(step, settings).map(|()| true),
        };
        match outcome {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                eprintln!("fulmar install: {error}");
                first_error = first_error.or(Some(error));
            }
        }
        left.push(step);
    }
    if settings.dry_run {
        return Ok(());
    }
    if let Some(error) = first_error {
        left.reverse();
        write_record(&left, settings)?;
        return Err(io::Error::other(format!(
            "{} of OpenSSH's places could not be given back, the first because of: {error}; \
             run --revert again when that is mended",
            left.len()
        )));
    }
    let path = record_path(settings);
    fs::remove_file(&path).map_err(explain("remove", &path))?;
    // Made for the record where Fulmar itself was not installed; kept if anything is in it.
    let _ = path.parent().map(fs::remove_dir);
    println!(
        "\nOpenSSH has its place again. A server that runs goes on until it is restarted (systemctl restart ssh or sshd)."
    );
    Ok(())
}

fn undo(step: &TakenStep, settings: &InstallSettings) -> io::Result<()> {
    match step {
        TakenStep::Program(path) => give_back(path, settings),
        TakenStep::Mode(path) => forget_mode(path, settings),
        TakenStep::Lines(path) => {
            let place = settings.below_root(path);
            println!("remove  {}", place.display());
            match settings.dry_run {
                true => Ok(()),
                false => remove_if_there(&place).map_err(explain("remove", &place)),
            }
        }
    }
}

fn give_back(path: &Path, settings: &InstallSettings) -> io::Result<()> {
    let place = settings.below_root(path);
    let kept = aside(&place);
    let is_ours = is_link_to_fulmar(&place);
    let has_kept = fs::symlink_metadata(&kept).is_ok();
    let fresh = fresh(&place);
    if !settings.dry_run {
        remove_if_there(&fresh).map_err(explain("remove", &fresh))?;
    }
    if !is_ours && fs::symlink_metadata(&place).is_ok() {
        if has_kept && !same_file(&place, &kept) && has_diversions(settings) {
            println!(
                "keep    {} (changed since; OpenSSH's is {})",
                place.display(),
                kept.display()
            );
            return Ok(());
        }
        // Interrupted after the hard link, or, without diversions, OpenSSH was upgraded: the
        // other name goes.
        println!("same    {}", place.display());
        if settings.dry_run {
            return Ok(());
        }
        if has_kept {
            fs::remove_file(&kept).map_err(explain("remove", &kept))?;
        }
        return divert(path, "--remove", settings);
    }
    println!("return  {}", place.display());
    if settings.dry_run {
        return Ok(());
    }
    if has_kept {
        fs::rename(&kept, &place).map_err(explain("rename", &kept))?;
    } else if is_ours {
        // OpenSSH was not installed, or has been removed since.
        fs::remove_file(&place).map_err(explain("remove", &place))?;
    }
    divert(path, "--remove", settings)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    // A file system that is read-only refuses also what is not there.
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => fs::remove_file(path),
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| {
        fs::symlink_metadata(path)
            .map(|data| (data.dev(), data.ino()))
            .ok()
    };
    id(one) == id(other)
}

#[cfg(test)]
mod tests;
