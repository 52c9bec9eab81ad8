//! `scp` and `sftp` as they are started, with an SFTP server that sends names that lead elsewhere:
//! each way to copy more than one file comes to what is in the target and nothing beside it.
//!
//! The test program runs itself: as the program under test, as the lying server and as an honest
//! one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sftp::attributes::mode;
use sftp::extension::Extended;
use sftp::message::reply::{
    Handle, NameEntry, Names, Status, data_head, encode_attrs, encode_extended,
};
use sftp::message::{Request, Version, number};
use sftp::{Attributes, Code, vendor};

/// What the lying server holds in its one directory: the first and the last of them are fair.
const NAMES: &[&[u8]] = &[
    b"good",
    b"../out",
    b"/tmp/fulmar-lying-server-out",
    b"a/b",
    b"good/../../out",
    b"",
    b".",
    b"..",
    b"nul\0name",
    b"good",
    b"sub",
];
/// And in the directory there.
const NAMES_BELOW: &[&[u8]] = &[b"../../out", b"in", b"/", b"../in"];

fn main() {
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let role = args.first().and_then(|role| role.to_str());
    let run: fn(Vec<OsString>) -> i32 = match role {
        Some("as-scp") => copy::scp::run,
        Some("as-sftp") => copy::sftp::run,
        Some("as-server") => server::sftp_server::run,
        Some("as-adversary") => |_| lie(false),
        Some("as-adversary-with-walk") => |_| lie(true),
        _ => return test(),
    };
    args.remove(0);
    std::process::exit(run(args));
}

// ---- the lying server ------------------------------------------------------------------------

fn lie(walks: bool) -> i32 {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    loop {
        let mut len = [0; 4];
        if input.read_exact(&mut len).is_err() {
            return 0;
        }
        let mut message = vec![0; usize::try_from(u32::from_be_bytes(len)).unwrap()];
        input.read_exact(&mut message).unwrap();
        let mut out = Vec::new();
        if message.first() == Some(&number::INIT) {
            let walk = walks.then_some((vendor::WALK, "2"));
            Version::encode(3, walk, &mut out);
        } else {
            let (id, request) = Request::decode(&message).unwrap();
            answer(id, &request, &mut out);
        }
        output.write_all(&out).unwrap();
        output.flush().unwrap();
    }
}

fn is_directory(path: &[u8]) -> bool {
    [b"/dir".as_slice(), b"/sub", b"."]
        .iter()
        .any(|end| path.ends_with(end))
}

fn attributes(path: &[u8]) -> Attributes {
    Attributes {
        size: Some(4),
        ..Attributes::with_permissions(match is_directory(path) {
            true => mode::DIRECTORY | 0o755,
            false => mode::REGULAR | 0o644,
        })
    }
}

fn answer(id: u32, request: &Request<'_>, out: &mut Vec<u8>) {
    let status = |code, out: &mut Vec<u8>| Status { code, message: b"" }.encode_into(id, out);
    match request {
        Request::Realpath(request) => {
            let path = match request.path {
                b"." => b"/",
                path => path,
            };
            Names::encode_path_into(id, path, out);
        }
        Request::Stat(request) => encode_attrs(id, &attributes(request.path), out),
        Request::Lstat(request) => encode_attrs(id, &attributes(request.path), out),
        Request::Fstat(request) => encode_attrs(id, &attributes(request.handle), out),
        // A handle is the path.
        Request::Open(request) => {
            let handle = request.path;
            Handle { handle }.encode_into(id, out);
        }
        Request::Opendir(request) => {
            let handle = request.path;
            Handle { handle }.encode_into(id, out);
        }
        Request::Readdir(request) => list(id, request.handle, out),
        Request::Read(request) if request.offset == 0 => {
            out.extend_from_slice(&data_head(id, 4));
            out.extend_from_slice(b"evil");
        }
        Request::Read(_) => status(Code::EOF, out),
        Request::Extended(Extended::Walk(_)) => walk(id, out),
        _ => status(Code::OK, out),
    }
}

fn list(id: u32, handle: &[u8], out: &mut Vec<u8>) {
    use std::sync::Mutex;
    static READ: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());
    // All of it in the first answer; READDIRs are asked ahead.
    let first = READ.lock().unwrap().insert(handle.to_vec());
    if !first {
        let code = Code::EOF;
        return Status { code, message: b"" }.encode_into(id, out);
    }
    let names = match handle.ends_with(b"/sub") {
        true => NAMES_BELOW,
        false => NAMES,
    };
    let mut encoded = Vec::new();
    for name in names {
        let path = [b"/dir/".as_slice(), name].concat();
        NameEntry {
            name,
            long_name: name,
            attributes: attributes(&path),
        }
        .encode_into(&mut encoded);
    }
    let count = u32::try_from(names.len()).unwrap();
    Names::encode_into(id, count, &encoded, out);
}

/// The whole tree as a stream, with paths that were never told.
fn walk(id: u32, out: &mut Vec<u8>) {
    let mut paths: Vec<Vec<u8>> = vec![Vec::new()];
    paths.extend(NAMES.iter().map(|name| name.to_vec()));
    let below = NAMES_BELOW.iter();
    paths.extend(below.map(|name| [b"sub/".as_slice(), name].concat()));
    paths.push(b"not-told/x".to_vec());
    encode_extended(id, out, |out| {
        for path in &paths {
            let whole = [b"/dir/".as_slice(), path].concat();
            let is_directory = path.is_empty() || path.ends_with(b"sub");
            vendor::WalkEntry {
                code: Code::OK,
                path,
                attributes: match path.is_empty() {
                    true => attributes(b"/dir"),
                    false => attributes(&whole),
                },
                allocated: 0,
                text: b"",
                content: (!is_directory).then_some(b"evil"),
            }
            .write(out);
        }
    });
    let code = Code::OK;
    Status { code, message: b"" }.encode_into(id, out);
}

// ---- the test --------------------------------------------------------------------------------

struct Place {
    root: PathBuf,
    carrier: PathBuf,
}

impl Place {
    fn new() -> Self {
        let root = std::env::temp_dir().join(format!("fulmar-lying-{}", std::process::id()));
        fs::create_dir_all(root.join("in/into")).unwrap();
        let own = std::env::current_exe().unwrap();
        let carrier = root.join("carrier");
        // What would log in starts a server here; the host's name says which.
        let script = format!(
            "#!/bin/sh\nfor each; do case $each in\n\
             adversary) exec '{0}' as-adversary;;\nwalker) exec '{0}' as-adversary-with-walk;;\n\
             honest) exec '{0}' as-server;;\nesac; done\n",
            own.display()
        );
        fs::write(&carrier, script).unwrap();
        fs::set_permissions(&carrier, fs::Permissions::from_mode(0o755)).unwrap();
        Self { root, carrier }
    }

    /// Runs one of our programs in the folder `in`; gives what it says.
    fn run(&self, role: &str, arguments: &[&str], input: &str) -> (i32, String) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(role)
            .arg("-S")
            .arg(&self.carrier)
            .args(arguments)
            .current_dir(self.root.join("in"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap_or(-1), said)
    }

    /// Every path below the root but for the carrier.
    fn found(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut left = vec![self.root.clone()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&self.root).unwrap();
                found.insert(name.display().to_string());
                if path.is_dir() {
                    left.push(path);
                }
            }
        }
        found.remove("carrier");
        found
    }

    /// Empties the target.
    fn clear(&self) {
        fs::remove_dir_all(self.root.join("in")).unwrap();
        fs::create_dir_all(self.root.join("in/into")).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn expected(below: &str) -> BTreeSet<String> {
    let names = ["good", "sub", "sub/in"].map(|name| format!("{below}/{name}"));
    let mut all: BTreeSet<String> = ["in", "in/into", below]
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    all.extend(names);
    all
}

fn test() {
    let place = Place::new();
    let absolute = place.root.join("in/into").display().to_string();
    let honest = format!("honest:{absolute}");
    let in_dir = "in/into/dir";
    let scp = |words: &[&str]| place.run("as-scp", words, "");
    let sftp = |host: &str, line: &str| place.run("as-sftp", &["-q", "-b", "-", host], line);
    // How it is copied, and where what is fair arrives.
    type Way<'w> = (&'w str, &'w str, Box<dyn Fn() -> (i32, String) + 'w>);
    let ways: Vec<Way<'_>> = vec![
        (
            "scp -r",
            in_dir,
            Box::new(|| scp(&["-qr", "adversary:/dir", "into"])),
        ),
        (
            "scp -r as a stream",
            in_dir,
            Box::new(|| scp(&["-qr", "walker:/dir", "into"])),
        ),
        (
            "scp -r of a pattern",
            "in/into",
            Box::new(|| scp(&["-qr", "adversary:/dir/*", "into"])),
        ),
        (
            "scp -r over two connections",
            in_dir,
            Box::new(|| scp(&["-qr", "-n", "2", "walker:/dir", "into"])),
        ),
        (
            "scp -r -Z",
            in_dir,
            Box::new(|| scp(&["-qr", "-Z", "walker:/dir", "into"])),
        ),
        (
            "scp -r --atomic",
            in_dir,
            Box::new(|| scp(&["-qr", "--atomic", "walker:/dir", "into"])),
        ),
        (
            "scp -3r",
            in_dir,
            Box::new(|| scp(&["-3qr", "adversary:/dir", &honest])),
        ),
        (
            "scp -3r from one that walks",
            in_dir,
            Box::new(|| scp(&["-3qr", "walker:/dir", &honest])),
        ),
        (
            "scp -3r of a pattern",
            "in/into",
            Box::new(|| scp(&["-3qr", "adversary:/dir/*", &honest])),
        ),
        (
            "sftp get -r",
            in_dir,
            Box::new(|| sftp("adversary", "get -r /dir into\n")),
        ),
        (
            "sftp get -r as a stream",
            in_dir,
            Box::new(|| sftp("walker", "get -r /dir into\n")),
        ),
        (
            "sftp get -r of a pattern",
            "in/into",
            Box::new(|| sftp("adversary", "get -r /dir/* into\n")),
        ),
        (
            "sftp reget -r",
            in_dir,
            Box::new(|| sftp("walker", "reget -r /dir into\n")),
        ),
        (
            "sftp get -r from where it is",
            "in/into",
            Box::new(|| sftp("walker", "cd /dir\nget -r . into\n")),
        ),
    ];
    let mut failed = false;
    for (name, below, copy) in ways {
        place.clear();
        let (status, said) = copy();
        let found = place.found();
        let good = found == expected(below)
            && !Path::new("/tmp/fulmar-lying-server-out").exists()
            && said.contains("suspect path \"../out\"")
            && !said.contains('\0')
            && status != 0;
        println!("{name}: {}", if good { "ok" } else { "FAILED" });
        if !good {
            failed = true;
            println!("  status {status}, found {found:?}\n  {said}");
        }
    }
    drop(place);
    assert!(!failed, "a server chose where files are written");
}
