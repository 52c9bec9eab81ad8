//! Virtual time: signs of life, rekeys by time, and exchanges that do not end.

use proto::{Connection, Error, Stream, TransportConfig};
use sim::Pair;

fn config() -> TransportConfig {
    TransportConfig::default()
}

/// Handles the timeouts that are due at `now`, like a driver.
fn tick(connection: &mut Connection, now: u64) -> Result<u32, Error> {
    let mut calls = 0;
    while connection.poll_deadline().is_some_and(|at| at <= now) {
        connection.handle_timeout(now)?;
        calls += 1;
        assert!(calls < 100, "a deadline that never moves");
    }
    Ok(calls)
}

#[test]
fn a_connection_without_limits_has_no_deadline() {
    let mut pair = Pair::new(config(), config());
    assert_eq!(pair.client.connection.poll_deadline(), None);
    pair.login(usize::MAX).unwrap();
    assert_eq!(pair.client.connection.poll_deadline(), None);
    assert_eq!(pair.server.connection.poll_deadline(), None);
}

#[test]
fn a_silent_peer_is_asked_at_each_interval_and_given_up_behind_the_last() {
    let mut one = config();
    one.alive_interval_ms = Some(1000);
    one.alive_count_max = 3;
    let mut pair = Pair::new(one, config());
    pair.login(usize::MAX).unwrap();
    let client = &mut pair.client.connection;
    for now in [1000, 2000, 3000] {
        assert_eq!(client.poll_deadline(), Some(now));
        client.handle_timeout(now - 1).unwrap();
        assert_eq!(client.poll_deadline(), Some(now), "asked too early");
        client.handle_timeout(now).unwrap();
    }
    assert_eq!(client.poll_deadline(), Some(4000));
    assert!(matches!(
        client.handle_timeout(4000),
        Err(Error::TimedOut(_))
    ));
}

/// `kill -STOP`, a debugger, a busy host: the peer seemed silent because this process was stopped.
#[test]
fn a_peer_gets_its_time_to_answer_when_we_ourselves_were_away() {
    let mut one = config();
    one.alive_interval_ms = Some(1000);
    one.alive_count_max = 3;
    let mut pair = Pair::new(one, config());
    pair.login(usize::MAX).unwrap();
    pair.now = 1_000_000;
    assert_eq!(tick(&mut pair.client.connection, pair.now).unwrap(), 1);
    assert_eq!(
        pair.client.connection.poll_deadline(),
        Some(pair.now + 1000)
    );
    pair.settle(usize::MAX).unwrap();
    assert_eq!(tick(&mut pair.client.connection, pair.now).unwrap(), 0);
}

#[test]
fn a_count_of_zero_ends_with_the_first_interval() {
    let mut one = config();
    one.alive_interval_ms = Some(1000);
    one.alive_count_max = 0;
    let mut pair = Pair::new(one, config());
    pair.login(usize::MAX).unwrap();
    let client = &mut pair.client.connection;
    assert_eq!(client.poll_deadline(), Some(1000));
    client.handle_timeout(999).unwrap();
    assert!(matches!(
        client.handle_timeout(1000),
        Err(Error::TimedOut(_))
    ));
}

#[test]
fn without_a_limit_a_silent_peer_is_asked_for_ever() {
    let mut one = config();
    one.alive_interval_ms = Some(1000);
    one.alive_count_max = u32::MAX;
    let mut pair = Pair::new(one, config());
    pair.login(usize::MAX).unwrap();
    for round in 1..=50 {
        assert_eq!(
            tick(&mut pair.client.connection, round * 1000).unwrap(),
            1,
            "round {round}"
        );
    }
}

#[test]
fn keys_change_at_each_interval_and_not_before() {
    let mut one = config();
    one.rekey_ms = Some(60_000);
    let mut pair = Pair::new(config(), one);
    pair.login(usize::MAX).unwrap();
    let session = pair.server.connection.session_id().unwrap().to_vec();
    let mut changed = 0;
    for second in 1..=600 {
        pair.now = second * 1000;
        tick(&mut pair.server.connection, pair.now).unwrap();
        pair.settle(usize::MAX).unwrap();
        for event in std::mem::take(&mut pair.client.events) {
            if let proto::Event::KeysChanged { first, .. } = event {
                changed += u32::from(!first);
            }
        }
        assert_eq!(u64::from(changed), second / 60, "after {second} s");
    }
    assert_eq!(pair.server.connection.session_id().unwrap(), session);
}

#[test]
fn an_exchange_that_is_not_answered_is_given_up() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    pair.client.connection.rekey(5000).unwrap();
    pair.client.transmit();
    let at = pair.client.connection.poll_deadline().expect("a limit");
    assert!(tick(&mut pair.client.connection, at - 1).is_ok());
    assert!(matches!(
        tick(&mut pair.client.connection, at),
        Err(Error::TimedOut("key exchange"))
    ));
}

/// Half a MiB of data precedes our KEXINIT. On a slow line that takes minutes, which are not the
/// peer's fault.
#[test]
fn the_time_for_an_exchange_begins_when_its_first_packet_leaves() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = pair.client.connection.open_channel("session", b"").unwrap();
    pair.settle(usize::MAX).unwrap();
    pair.server
        .connection
        .accept_channel(proto::ChannelId(0))
        .unwrap();
    pair.settle(usize::MAX).unwrap();
    let client = &mut pair.client.connection;
    let data = vec![1; 1 << 20];
    assert!(client.channel_send_slice(id, Stream::Data, &data).unwrap() > 400_000);
    client.rekey(0).unwrap();
    let mut now = 0;
    let mut taken = 0;
    while client.has_output() {
        now += 30_000;
        client.process(now).unwrap();
        tick(client, now).unwrap();
        drop(client.poll_output());
        taken += 1;
    }
    assert!(taken > 8, "{taken} packets");
    let at = client.poll_deadline().expect("a limit");
    assert!(at > now && at <= now + 600_000, "{at} at {now}");
    assert!(tick(client, at).is_err());
}

/// Sends `bytes` of data from the server and lets the client consume them.
fn download(pair: &mut Pair, id: proto::ChannelId, mut bytes: usize) {
    while bytes > 0 {
        let data = vec![1; bytes.min(256 * 1024)];
        let server = &mut pair.server.connection;
        bytes -= server.channel_send_slice(id, Stream::Data, &data).unwrap();
        pair.settle(usize::MAX).unwrap();
        for event in std::mem::take(&mut pair.client.events) {
            if let proto::Event::ChannelData { data, .. } = event {
                let client = &mut pair.client.connection;
                client.channel_consumed(id, data.len()).unwrap();
            }
        }
        pair.settle(usize::MAX).unwrap();
    }
}

/// The client asks whether the server has processed its packets, and gets the answer.
fn taken(pair: &mut Pair) {
    pair.now = pair.client.connection.poll_deadline().expect("a question");
    tick(&mut pair.client.connection, pair.now).unwrap();
    pair.settle(usize::MAX).unwrap();
}

#[test]
fn memory_of_bulk_data_is_given_back_once_when_it_is_over() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = pair.open_session().unwrap();
    taken(&mut pair);
    for start in [20_000, 40_000] {
        for now in [start, start + 900] {
            pair.now = now;
            download(&mut pair, id, 4 << 20);
        }
        // The wire of this test keeps no buffers, so that a sender uses few; a receiver's slab has
        // been filled many times.
        tick(&mut pair.server.connection, start + 1900).unwrap();
        let client = &mut pair.client.connection;
        assert_eq!(client.poll_deadline(), Some(start + 1900));
        assert_eq!(tick(client, start + 1899).unwrap(), 0);
        assert_eq!(tick(client, start + 1900).unwrap(), 1);
        let question = Some(start + 10_000);
        assert_eq!(client.poll_deadline(), question);
        // A keystroke's echo sets no further timer.
        pair.now = start + 3000;
        download(&mut pair, id, 1);
        assert_eq!(pair.client.connection.poll_deadline(), question);
        assert_eq!(pair.server.connection.poll_deadline(), None);
        taken(&mut pair);
    }
}

#[test]
fn buffers_of_a_full_queue_are_given_back_once_they_are_written() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = pair.open_session().unwrap();
    let server = &mut pair.server.connection;
    let data = vec![1; 1 << 20];
    assert!(server.channel_send_slice(id, Stream::Data, &data).unwrap() > 400_000);
    let mut written = Vec::new();
    while let Some(output) = server.poll_output() {
        if let proto::TransportOutput::Seal(job) = output {
            written.push(job.run().into_buf());
        }
    }
    assert_eq!(server.poll_deadline(), None, "nothing is spare yet");
    server.process(5000).unwrap();
    for buf in written {
        server.recycle(buf);
    }
    assert_eq!(server.poll_deadline(), Some(6000));
    assert_eq!(tick(server, 6000).unwrap(), 1);
    assert_eq!(server.poll_deadline(), None);
}

#[test]
fn memory_that_a_slow_sink_holds_is_given_back_once_it_lets_go() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = pair.open_session().unwrap();
    taken(&mut pair);
    pair.now = 12_000;
    let server = &mut pair.server.connection;
    let sent = server.channel_send_slice(id, Stream::Data, &[1; 400_000]);
    assert_eq!(sent.unwrap(), 400_000);
    pair.settle(usize::MAX).unwrap();
    let kept = std::mem::take(&mut pair.client.events);
    // More data after it, so that another slab is started.
    download(&mut pair, id, 2 << 20);
    pair.now = 20_000;
    let client = &mut pair.client.connection;
    assert_eq!(tick(client, pair.now).unwrap(), 1);
    let question = Some(22_000);
    assert_eq!(client.poll_deadline(), question, "waits for no sink");
    drop(kept);
    // Too little for an adjust of the window.
    client.channel_consumed(id, 100).unwrap();
    assert_eq!(client.poll_deadline(), Some(21_000));
    assert_eq!(tick(client, 21_000).unwrap(), 1);
    assert_eq!(client.poll_deadline(), question);
}

/// Whatever bit of a length is flipped in transit, the connection ends soon, by the following bytes
/// or by the answers to the requests.
#[test]
fn a_packet_whose_length_was_changed_ends_the_connection() {
    for to_server in [false, true] {
        let mut waited = 0;
        for bit in 0..32 {
            let mut pair = Pair::new(config(), config());
            pair.login(usize::MAX).unwrap();
            let (from, to) = match to_server {
                false => (&mut pair.server, &mut pair.client),
                true => (&mut pair.client, &mut pair.server),
            };
            from.connection.send_keepalive().unwrap();
            from.transmit();
            let mut bytes: Vec<u8> = from.wire.drain(..).collect();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut now = pair.now;
            let mut result = to.receive(&bytes, now);
            let mut rounds = 0;
            while result.is_ok() {
                rounds += 1;
                assert!(rounds <= 10, "bit {bit}, to the server {to_server}");
                now += 5_000;
                result = tick(&mut to.connection, now).map(drop);
                to.transmit();
                let asked: Vec<u8> = to.wire.drain(..).collect();
                from.receive(&asked, now).unwrap();
                from.transmit();
                let answer: Vec<u8> = from.wire.drain(..).collect();
                result = result.and_then(|()| to.receive(&answer, now));
            }
            waited += usize::from(rounds > 0);
        }
        assert!(waited > 5, "no length waited for more");
    }
}

/// A client that has asked for a login, and the server's answer, which is not delivered yet.
fn with_answer_on_its_way() -> (Pair, Vec<u8>) {
    let mut pair = Pair::new(config(), config());
    pair.settle(usize::MAX).unwrap();
    let client = &mut pair.client;
    client
        .connection
        .auth_password(b"user", sim::PASSWORD)
        .unwrap();
    client.transmit();
    let asked: Vec<u8> = client.wire.drain(..).collect();
    pair.server.receive(&asked, pair.now).unwrap();
    pair.answer_server().unwrap();
    pair.server.transmit();
    let answer = pair.server.wire.drain(..).collect();
    (pair, answer)
}

/// The login's answer with a length that was damaged on its way: its rest never comes.
#[test]
fn a_packet_of_the_login_without_its_end_ends_the_connection() {
    let (mut pair, answer) = with_answer_on_its_way();
    let client = &mut pair.client;
    // A server that has not answered yet has no limit.
    assert_eq!(client.connection.poll_deadline(), None);
    let start = pair.now;
    client.receive(&answer[..answer.len() - 1], start).unwrap();
    for after in [30_000, 60_000] {
        assert_eq!(client.connection.poll_deadline(), Some(start + after));
        client.connection.handle_timeout(start + after).unwrap();
    }
    let end = client.connection.handle_timeout(start + 90_000);
    assert!(matches!(end, Err(Error::TimedOut(_))), "{end:?}");
}

#[test]
fn a_packet_of_the_login_that_comes_slowly_is_waited_for() {
    let (mut pair, answer) = with_answer_on_its_way();
    let client = &mut pair.client;
    let mut now = pair.now;
    for byte in &answer {
        client.receive(&[*byte], now).unwrap();
        now += 50_000;
        tick(&mut client.connection, now).unwrap();
    }
    assert!(client.connection.is_authenticated());
    assert_eq!(client.connection.poll_deadline(), None);
}

/// A pair with a session, and one of its packets that is not delivered to the server yet.
fn with_data_on_its_way() -> (Pair, Vec<u8>) {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = pair.open_session().unwrap();
    let sent = pair
        .client
        .connection
        .channel_send_slice(id, Stream::Data, &[1; 30_000]);
    assert_eq!(sent.unwrap(), 30_000);
    pair.client.transmit();
    let bytes = pair.client.wire.drain(..).collect();
    (pair, bytes)
}

/// A packet at 4 bytes a second is fine: no request is sent, and the connection continues.
#[test]
fn a_packet_that_grows_is_no_matter_of_doubt() {
    let (mut pair, bytes) = with_data_on_its_way();
    let mut now = pair.now;
    let mut asked = 0;
    for piece in bytes.chunks(40) {
        pair.server.receive(piece, now).unwrap();
        now += 10_000;
        asked += tick(&mut pair.server.connection, now).unwrap();
    }
    pair.server.transmit();
    assert_eq!(pair.server.wire.len(), 0, "{asked} deadlines");
}

/// A network that is interrupted for an hour in the middle of a packet, and a slow one.
#[test]
fn a_packet_that_comes_slowly_is_waited_for() {
    let (mut pair, bytes) = with_data_on_its_way();
    let (first, rest) = bytes.split_at(1000);
    let mut now = pair.now;
    pair.server.receive(first, now).unwrap();
    let mut asked = 0;
    for _ in 0..360 {
        now += 10_000;
        asked += tick(&mut pair.server.connection, now).unwrap();
    }
    assert!(asked > 0);
    pair.server.transmit();
    assert!(pair.server.wire.len() < 200, "it was asked more than once");
    for piece in rest.chunks(600) {
        now += 10_000;
        tick(&mut pair.server.connection, now).unwrap();
        pair.server.receive(piece, now).unwrap();
    }
    assert_eq!(pair.server.connection.poll_deadline(), None);
}

/// Forty bytes a second after a pause: these belong to the packet and are not an answer.
#[test]
fn a_packet_that_goes_on_slowly_behind_a_pause_is_waited_for() {
    let (mut pair, bytes) = with_data_on_its_way();
    let (first, rest) = bytes.split_at(1000);
    pair.server.receive(first, pair.now).unwrap();
    let mut now = pair.now;
    // The pause, in which a request is sent.
    for _ in 0..60 {
        now += 1000;
        tick(&mut pair.server.connection, now).unwrap();
    }
    for piece in rest.chunks(40) {
        now += 1000;
        pair.server.receive(piece, now).unwrap();
        tick(&mut pair.server.connection, now).unwrap();
    }
    assert_eq!(pair.server.connection.poll_deadline(), None);
}

/// ClientAliveInterval treats received parts of a packet as a sign of life, as in OpenSSH.
#[test]
fn a_packet_that_comes_slowly_is_a_sign_of_life() {
    let mut strict = config();
    strict.alive_interval_ms = Some(5000);
    strict.alive_count_max = 3;
    let mut pair = Pair::new(config(), strict);
    pair.login(usize::MAX).unwrap();
    let id = pair.open_session().unwrap();
    let client = &mut pair.client.connection;
    client
        .channel_send_slice(id, Stream::Data, &[1; 30_000])
        .unwrap();
    pair.client.transmit();
    let bytes: Vec<u8> = pair.client.wire.drain(..).collect();
    let mut now = pair.now;
    for piece in bytes.chunks(40) {
        now += 1000;
        pair.server.receive(piece, now).unwrap();
        tick(&mut pair.server.connection, now).unwrap();
    }
    // It stops: the peer is gone.
    pair.client
        .connection
        .channel_send_slice(id, Stream::Data, &[1; 30_000])
        .unwrap();
    pair.client.transmit();
    let bytes: Vec<u8> = pair.client.wire.drain(..).collect();
    pair.server.receive(&bytes[..1000], now).unwrap();
    // Answers that lengthen a packet with a damaged length are not a sign of life.
    let gone = (0..60).any(|_| {
        now += 1000;
        let asked = tick(&mut pair.server.connection, now);
        pair.server.transmit();
        if pair.server.wire.drain(..).count() > 0 {
            pair.server.receive(&[0; 64], now).unwrap();
        }
        asked.is_err()
    });
    assert!(gone, "a peer that is gone was waited for");
}

/// For every damaged length: OpenSSH's server waits for the end of a false packet indefinitely.
#[test]
fn a_server_that_does_not_answer_is_sent_the_end_of_any_packet() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = pair.open_session().unwrap();
    let client = &mut pair.client;
    let sent = client
        .connection
        .channel_send_slice(id, Stream::Data, b"lost");
    assert_eq!(sent.unwrap(), 4);
    client.transmit();
    client.wire.clear();
    let start = client.connection.poll_deadline().expect("a question") - 10_000;
    let mut sent = Vec::new();
    for at in [9_999, 10_000, 19_999, 20_000, 30_000] {
        let now = start + at;
        // Like a driver that knows that all bytes were delivered, from the third request on.
        if at > 20_000 && client.connection.doubts_silence(now) {
            client.connection.fill_packet().unwrap();
        }
        tick(&mut client.connection, now).unwrap();
        client.transmit();
        sent.push(client.wire.drain(..).count());
    }
    let [0, question @ 1..200, 0, 0, filler] = sent[..] else {
        panic!("{sent:?}");
    };
    assert!(
        question < 200 && filler > wire::MAX_PACKET_BYTES,
        "{sent:?}"
    );
    assert_eq!(client.connection.poll_deadline(), None);
}

/// Its answer follows much other data on a slow line: this is not silence.
#[test]
fn a_server_whose_answer_is_late_is_not_sent_more() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    pair.open_session().unwrap();
    let mut now = pair.client.connection.poll_deadline().expect("a question");
    tick(&mut pair.client.connection, now).unwrap();
    pair.client.transmit();
    for _ in 0..10 {
        let server = &mut pair.server;
        server
            .connection
            .send_ignore(b"data that is on its way")
            .unwrap();
        server.transmit();
        let bytes: Vec<u8> = server.wire.drain(..).collect();
        pair.client.receive(&bytes, now + 5000).unwrap();
        now += 10_000;
        assert!(!pair.client.connection.doubts_silence(now));
        tick(&mut pair.client.connection, now).unwrap();
    }
    now += 10_000;
    assert!(pair.client.connection.doubts_silence(now), "silent now");
}

/// The server sends much data and has not processed the client's packets: the client asks
/// nevertheless.
#[test]
fn a_client_asks_once_whether_what_it_sent_was_taken() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = pair.open_session().unwrap();
    let mut asked = 0;
    for round in 0..100 {
        if round == 50 {
            let client = &mut pair.client.connection;
            client
                .channel_send_slice(id, Stream::Data, b"data")
                .unwrap();
        }
        pair.settle(usize::MAX).unwrap();
        pair.now += 10_000;
        asked += tick(&mut pair.client.connection, pair.now).unwrap();
        let server = &mut pair.server.connection;
        server.send_ignore(b"noise").unwrap();
        pair.settle(usize::MAX).unwrap();
    }
    assert_eq!(asked, 2, "once behind the login, and once behind the data");
    assert_eq!(pair.client.connection.poll_deadline(), None);
}
