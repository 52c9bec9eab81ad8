//! Forwarded X servers, between both suites: Xvfb is the X server, and xdpyinfo and xauth are the
//! remote programs.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, Input, Outcome, installed};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, each, finish};

/// The cookie of the X server.
const COOKIE: &str = "0123456789abcdef0123456789abcdef";
/// The first display of the X servers of these tests.
const FIRST_DISPLAY: u32 = 170;

/// A running X server that requires the cookie.
struct XServer {
    display: String,
    scratch: Scratch,
    _process: Background,
}

impl XServer {
    /// Starts one; `None` if its programs are not installed. Each test has a `number` of its own.
    fn start(number: u32) -> Option<Self> {
        for program in ["Xvfb", "xauth", "xdpyinfo"] {
            if installed(program).is_none() {
                skipped(program, &"not installed");
                return None;
            }
        }
        let display = format!(":{}", FIRST_DISPLAY + number);
        let scratch = Scratch::new();
        let authority = scratch.join("authority");
        let mut add = Command::new("xauth");
        add.arg("-f")
            .arg(&authority)
            .args(["add", &display, ".", COOKIE]);
        assert_eq!(finish(&mut add, Input::Nothing).status, 0);
        let mut command = Command::new("Xvfb");
        command
            .args([
                &display,
                "-nolisten",
                "tcp",
                "-noreset",
                "+extension",
                "SECURITY",
            ])
            .arg("-auth")
            .arg(&authority)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Background::start(&mut command).expect("Xvfb");
        let socket = format!("/tmp/.X11-unix/X{}", FIRST_DISPLAY + number);
        assert!(until(COMMAND_LIMIT, || UnixStream::connect(&socket).is_ok()));
        Some(Self {
            display,
            scratch,
            _process: process,
        })
    }

    /// Runs a command through the client with this display.
    fn run(&self, site: &Site, flags: &[&str], command: &str) -> Outcome {
        let mut client = site.ssh("");
        client
            .env("DISPLAY", &self.display)
            .env("XAUTHORITY", self.scratch.join("authority"))
            .arg("-oLogLevel=INFO")
            .args(flags)
            .args([HOST, command]);
        finish(&mut client, Input::Nothing)
    }

    /// The server's configuration: remote programs keep cookies in a file of this test.
    fn permits(&self) -> String {
        let file = self.scratch.join("remote-authority");
        format!("X11Forwarding yes\nSetEnv XAUTHORITY={}\n", file.display())
    }
}

#[test]
fn remote_programs_reach_the_display_with_all_rights_or_few() {
    let Some(x) = XServer::start(0) else { return };
    each(|client, server| {
        let site = Site::new(client, server, &x.permits());
        for flag in ["-Y", "-X"] {
            let outcome = x.run(&site, &[flag], "echo $DISPLAY; xdpyinfo");
            assert_eq!(outcome.status, 0, "{flag}: {}", outcome.summary());
            let text = outcome.stdout.text();
            let display = text.lines().next().unwrap_or_default().to_owned();
            assert!(display.starts_with("localhost:1"), "{display}");
            assert!(
                text.contains(&format!("name of display:    {display}")),
                "{text}"
            );
        }
    });
}

/// Programs that were started before keep their connections; later ones get none.
#[test]
fn an_untrusted_display_is_refused_after_its_time() {
    let Some(x) = XServer::start(8) else { return };
    each(|client, server| {
        let site = Site::new(client, server, &x.permits());
        // Debian's client trusts by default.
        let flags = ["-X", "-oForwardX11Trusted=no", "-oForwardX11Timeout=1"];
        let outcome = x.run(&site, &flags, "sleep 2; xdpyinfo; echo end");
        assert_eq!(outcome.stdout.text(), "end\n", "{}", outcome.summary());
    });
}

#[test]
fn nothing_is_forwarded_unless_both_sides_want_it() {
    let Some(x) = XServer::start(1) else { return };
    each(|client, server| {
        let site = Site::new(client, server, &x.permits());
        for flags in [&[][..], &["-Y", "-x"]] {
            let outcome = x.run(&site, flags, "echo \"<$DISPLAY>\"");
            assert_eq!(outcome.stdout.text(), "<>\n", "{flags:?}");
        }
        let site = Site::new(client, server, "X11Forwarding no\n");
        let outcome = x.run(&site, &["-Y"], "echo \"<$DISPLAY>\"");
        assert_eq!((outcome.status, outcome.stdout.text()), (0, "<>\n".into()));
        let said = outcome.stderr.text();
        assert!(
            said.contains("X11 forwarding request failed on channel"),
            "{said}"
        );
    });
}

#[test]
fn a_program_without_the_cookie_is_kept_out() {
    let Some(x) = XServer::start(2) else { return };
    each(|client, server| {
        let site = Site::new(client, server, &x.permits());
        // The X server's own cookie does not leave the client.
        let outcome = x.run(
            &site,
            &["-Y"],
            &format!(
                "xauth list $DISPLAY; XAUTHORITY=/nonexistent xdpyinfo; \
                 xauth -q add $DISPLAY . {COOKIE}; xdpyinfo; echo end"
            ),
        );
        assert_eq!(outcome.stdout.text().matches(COOKIE).count(), 0);
        assert!(
            !outcome.stdout.text().contains("version number"),
            "{}",
            outcome.summary()
        );
        assert!(outcome.stdout.text().contains("MIT-MAGIC-COOKIE-1"));
        let said = outcome.stderr.text();
        let refused = said.matches("X11 connection rejected because of wrong authentication");
        assert_eq!(refused.count(), 2, "{said}");
    });
}

#[test]
fn eight_programs_at_once_and_a_display_that_ends_with_its_session() {
    let Some(x) = XServer::start(3) else { return };
    each(|client, server| {
        let site = Site::new(client, server, &x.permits());
        let command = "echo $DISPLAY; for n in 1 2 3 4 5 6 7 8; do xdpyinfo | grep -c 'version number' & done; wait";
        let outcome = x.run(&site, &["-Y"], command);
        let text = outcome.stdout.text();
        assert_eq!(
            text.lines().filter(|line| *line == "1").count(),
            8,
            "{text}"
        );
        let number = text.trim_start_matches("localhost:").split('.').next();
        let port = 6000
            + number
                .and_then(|number| number.parse().ok())
                .unwrap_or(0_u16);
        let is_free = || std::net::TcpStream::connect(("127.0.0.1", port)).is_err();
        assert!(until(COMMAND_LIMIT, is_free), "{port}");
    });
}

#[test]
fn without_xauth_the_server_writes_the_cookie_itself() {
    let Some(x) = XServer::start(4) else { return };
    let lines = format!("{}XAuthLocation /nonexistent/xauth\n", x.permits());
    let site = Site::new(Kind::OpenSsh, Kind::Fulmar, &lines);
    let outcome = x.run(&site, &["-Y"], "xdpyinfo");
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    let file = fs::metadata(x.scratch.join("remote-authority")).expect("the file");
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o777,
        0o600
    );
}

#[test]
fn a_display_that_is_none_is_named_and_the_session_goes_on() {
    let Some(x) = XServer::start(5) else { return };
    let site = Site::new(Kind::Fulmar, Kind::OpenSsh, &x.permits());
    for (display, said) in [
        (":0;id", "invalid; disabling X11 forwarding"),
        ("", ""),
        (":9999", ""),
    ] {
        let mut client = site.ssh("");
        client
            .env("DISPLAY", display)
            .args(["-oLogLevel=INFO", "-Y", HOST, "xdpyinfo; echo end"]);
        let outcome = finish(&mut client, Input::Nothing);
        assert!(
            outcome.stdout.text().ends_with("end\n"),
            "{display}: {}",
            outcome.summary()
        );
        assert!(
            outcome.stderr.text().contains(said),
            "{}",
            outcome.summary()
        );
    }
}

/// As a port scanner does. A channel that stayed would keep the client from ending.
#[test]
fn a_program_that_leaves_before_its_first_packet_keeps_nothing_open() {
    let Some(x) = XServer::start(6) else { return };
    each(|client, server| {
        let site = Site::new(client, server, &x.permits());
        // OpenSSH's client keeps the channel of a packet that stays incomplete.
        let parts: &[&str] = match client {
            Kind::Fulmar => &["", "l"],
            Kind::OpenSsh => &[""],
        };
        for part in parts {
            let command = format!(
                "bash -c 'place=${{DISPLAY#*:}}; exec 3<>/dev/tcp/127.0.0.1/$((6000 + ${{place%.*}})); \
                 printf \"{part}\" >&3; exec 3>&-; echo left'"
            );
            let outcome = x.run(&site, &["-Y"], &command);
            let text = outcome.stdout.text();
            assert_eq!(
                (outcome.status, text.as_str()),
                (0, "left\n"),
                "{}",
                outcome.summary()
            );
        }
    });
}

/// A window with a command in it, and one that draws all the time.
#[test]
fn xterm_and_glxgears_draw() {
    let Some(x) = XServer::start(7) else { return };
    each(|client, server| {
        let site = Site::new(client, server, &x.permits());
        if installed("xterm").is_some() {
            let outcome = x.run(
                &site,
                &["-Y"],
                "xterm -e sh -c 'tty; exit 3' && echo closed",
            );
            assert_eq!(outcome.stdout.text(), "closed\n", "{}", outcome.summary());
        } else {
            skipped("xterm", &"not installed");
        }
        if installed("glxgears").is_some() {
            // It draws until timeout(1) ends it.
            let outcome = x.run(&site, &["-Y"], "timeout 1 glxgears -info; echo $?");
            let said = outcome.stdout.text();
            assert!(said.ends_with("124\n"), "{}", outcome.summary());
            assert!(said.contains("GL_RENDERER"), "{}", outcome.summary());
        } else {
            skipped("glxgears", &"not installed");
        }
    });
}
