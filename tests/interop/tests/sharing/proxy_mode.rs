//! Proxy mode (OpenSSH's PROTOCOL.mux §9).

use super::*;

#[test]
fn in_proxy_mode_a_passenger_speaks_the_connection_protocol_itself() {
    each(|shared| {
        let master = shared.start("");
        let ride =
            |arguments: &[&str], input| shared.ride(&[&["-O", "proxy"], arguments].concat(), input);
        let here = shared.ride(&[HOST, "echo $SSH_CONNECTION"], Input::Nothing);
        let proxied = ride(&[HOST, "echo $SSH_CONNECTION"], Input::Nothing);
        assert_is(&proxied, 0, &here.stdout.text());
        let both = ride(&[HOST, "echo out; echo err >&2; exit 7"], Input::Nothing);
        assert_is(&both, 7, "out\n");
        assert_eq!(both.stderr.text(), "err\n");
        // More than a window in both directions.
        let bytes = interop::matrix::noise(5 << 20);
        let back = ride(&[HOST, "cat"], Input::Bytes(&bytes));
        assert_eq!((back.status, back.stdout.length), (0, 5 << 20));
        // Several at a time, whose channels have the same number.
        thread::scope(|scope| {
            let sum = |n: u32| {
                ride(
                    &[HOST, &format!("cat >/dev/null; echo {n}")],
                    Input::Bytes(&bytes),
                )
            };
            let rides: Vec<_> = (0..4).map(|n| (n, scope.spawn(move || sum(n)))).collect();
            for (n, ride) in rides {
                assert_is(&ride.join().unwrap(), 0, &format!("{n}\n"));
            }
        });
        // Its own listeners, and those of the server.
        let count = target(Does::Count);
        let (local, remote) = (free_port(), free_port());
        let mut listens = shared.command();
        listens.args(["-O", "proxy", "-N"]);
        listens.args(["-L", &format!("{local}:127.0.0.1:{count}")]);
        listens.args(["-R", &format!("{remote}:127.0.0.1:{count}"), HOST]);
        let listens = Background::start(listens.stdin(Stdio::null())).unwrap();
        for port in [local, remote] {
            let connects = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
            assert!(until(LIMIT, connects), "port {port}");
            assert_eq!(through(port, b"abcd"), b"4\n", "port {port}");
        }
        drop(listens);
        if shared.site.client == Kind::Fulmar {
            let refuses = || std::net::TcpStream::connect(("127.0.0.1", remote)).is_err();
            assert!(until(LIMIT, refuses), "the server's listener stays");
        }
        let after = shared.ride(&[HOST, "echo on"], Input::Nothing);
        assert_is(&after, 0, "on\n");
        shared.ends(master);
    });
}

#[test]
fn a_passenger_in_proxy_mode_reaches_no_channel_but_its_own() {
    let shared = ours("");
    let master = shared.start("");
    let path = shared.path();
    let mut long = Background::start(
        shared
            .command()
            .args([HOST, "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    )
    .unwrap();
    let mut asks = greet(&path);
    asks.write_all(&packet(&[b"\x10\0\0\x0f\0\0\0\x01"]))
        .unwrap();
    let mut answer = [0; 12];
    asks.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[4..], b"\x80\0\0\x0f\0\0\0\x01");
    // DATA, EOF for every number, a key exchange, IGNORE, and a request that would end the others.
    for number in 0..8_u8 {
        for message in [&[96, 0, 0, 0, number][..], &[97, 0, 0, 0, number]] {
            asks.write_all(&packet(&[&[0], message])).unwrap();
        }
        let data = [&[0, 94, 0, 0, 0, number, 0, 0, 0, 1][..], b"x"];
        asks.write_all(&packet(&data)).unwrap();
    }
    asks.write_all(&packet(&[&[0, 20], &[0; 60]])).unwrap();
    asks.write_all(&packet(&[&[0, 2, 0, 0, 0, 0]])).unwrap();
    let name = b"no-more-sessions@openssh.com";
    asks.write_all(&packet(&[&[0, 80, 0, 0, 0, 28], name, &[1]]))
        .unwrap();
    let mut failure = [0; 9];
    asks.read_exact(&mut failure).unwrap();
    assert_eq!(
        failure, *b"\0\0\0\x05\x03\x52\0\0\0",
        "REQUEST_FAILURE, padded"
    );
    asks.write_all(&packet(&[&[0]])).unwrap();
    let mut rest = Vec::new();
    let _ = asks.read_to_end(&mut rest);
    assert!(rest.is_empty());
    let mut input = long.0.stdin.take().unwrap();
    input.write_all(b"still\n").unwrap();
    drop(input);
    let mut output = String::new();
    long.0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    assert_eq!(output, "still\n");
    let rides = shared.ride(&[HOST, "echo on"], Input::Nothing);
    assert_is(&rides, 0, "on\n");
    shared.ends(master);
}
