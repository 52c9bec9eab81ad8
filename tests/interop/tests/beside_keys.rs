//! A user who types beside a download, with rekeys and with a reader that pauses: each byte of both
//! arrives.

use std::io::{Read, Write};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use interop::process::{Background, COMMAND_LIMIT, wait};
use interop::site::{HOST, Site, each};

const MIB: usize = 1 << 20;
const DOWNLOAD_BYTES: usize = 192 * MIB;
/// Bytes after which the reader of the download pauses.
const PART_BYTES: usize = 24 * MIB;
/// Keys; the last ones come after the download.
const KEYS: u32 = 300;
const PAUSE: Duration = Duration::from_millis(120);

#[test]
fn a_download_and_each_echo_arrive() {
    each(|client, server| {
        let site = Site::new(client, server, "RekeyLimit 40M\n");
        let mut command = site.ssh("");
        command
            .args([
                HOST,
                &format!("head -c {DOWNLOAD_BYTES} /dev/zero & cat >&2; wait"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = Background::start(&mut command).expect("a client");
        let mut keys = child.0.stdin.take().expect("its input");
        let mut echo = child.0.stderr.take().expect("its errors");
        let mut download = child.0.stdout.take().expect("its output");
        let reader = thread::spawn(move || {
            let mut part = vec![0; PART_BYTES];
            let mut bytes = 0;
            while bytes < DOWNLOAD_BYTES {
                download.read_exact(&mut part).expect("the download");
                bytes += part.len();
                thread::sleep(PAUSE);
            }
            download.read(&mut part).expect("its end")
        });
        let mut typed = 0_u32;
        while typed < KEYS {
            let key = [typed.to_le_bytes()[0]];
            keys.write_all(&key).expect("a key");
            let mut came = [0];
            echo.read_exact(&mut came).expect("its echo");
            assert_eq!(came, key);
            typed += 1;
            thread::sleep(Duration::from_millis(5));
        }
        drop(keys);
        assert_eq!(reader.join().expect("a reader"), 0);
        assert!(wait(&mut child.0, COMMAND_LIMIT).expect("an end").success());
    });
}
