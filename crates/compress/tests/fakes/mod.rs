//! Libraries of C that go wrong on demand (faults.h says how), for the tests of whoever loads them.
//! Other crates' tests have this file by its path.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where this file is in the workspace.
const HERE: &str = "crates/compress/tests/fakes";

/// A directory of built libraries; removed when this value is dropped, also after a failed test.
pub struct Fakes(PathBuf);

impl Fakes {
    /// An empty one, for `test` of this process.
    pub fn new(test: &str) -> Self {
        let name = format!("fulmar-fakes-{}-{test}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Where things are built.
    #[allow(dead_code, reason = "not all who include this file use all of it")]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// A library with zlib's functions.
    pub fn zlib(&self, name: &str, flags: &[&str]) -> PathBuf {
        let path = self.0.join(format!("lib{name}.so"));
        let mut arguments = vec!["-shared", "-fPIC", "-w"];
        arguments.extend_from_slice(flags);
        self.compile(&path, &sources().join("zlib.c"), &arguments)
    }

    /// A library with zlib's functions, of which `at` goes wrong as `how` says, `after` calls.
    #[allow(dead_code, reason = "not all who include this file use all of it")]
    pub fn faulty_zlib(&self, at: &str, how: &str, after: u32) -> PathBuf {
        self.zlib(&name(at, how, after), &as_flags(&faults(at, how, after)))
    }

    /// A library without functions of its own that depends on `other`.
    #[allow(dead_code, reason = "not all who include this file use all of it")]
    pub fn dependent(&self, name: &str, other: &Path) -> PathBuf {
        let path = self.0.join(format!("lib{name}.so"));
        let other = other.to_str().unwrap();
        let flags = ["-shared", "-Wl,--no-as-needed", other];
        self.compile(&path, Path::new("/dev/null"), &flags)
    }

    /// A program, from the source at `source`.
    #[allow(dead_code, reason = "not all who include this file use all of it")]
    pub fn program(&self, source: &Path) -> PathBuf {
        let path = self.0.join(source.file_stem().unwrap());
        self.compile(&path, source, &[])
    }

    /// Built once: who loads it may still have it.
    fn compile(&self, path: &Path, source: &Path, flags: &[&str]) -> PathBuf {
        if !path.exists() {
            let mut compiler = Command::new("cc");
            compiler.args(["-O1", "-o"]).arg(path);
            compiler.args(["-x", "c"]).arg(source).args(["-x", "none"]);
            let built = compiler.args(flags).status().expect("a C compiler");
            assert!(built.success(), "{}", source.display());
        }
        path.to_owned()
    }
}

impl Drop for Fakes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The folder of this file, whosever package this is.
fn sources() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = package.ancestors().map(|it| it.join(HERE));
    found.find(|path| path.is_dir()).unwrap()
}

fn name(at: &str, how: &str, after: u32) -> String {
    format!("{at}-{how}-{after}")
}

fn faults(at: &str, how: &str, after: u32) -> [String; 3] {
    [
        format!("-DAT={at}"),
        format!("-DHOW={how}"),
        format!("-DAFTER={after}"),
    ]
}

fn as_flags(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}
