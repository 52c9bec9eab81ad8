//! Tests of lookups, with a function in place of the system's resolver.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use proto::{ChannelId, Connection, TransportConfig};
use sys::socket::Family;

use super::super::{ForwardReport, ForwardSettings, Forwards};
use super::*;

const TOKEN: u64 = super::super::FIRST_TOKEN;

fn driver() -> (Driver, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    let connection = Connection::client(TransportConfig::default(), 0).unwrap();
    (Driver::new(ours.into(), None, connection).unwrap(), peer)
}

/// A resolver with this function in place of the system's.
fn resolver(look_up: fn(&Lookup) -> Found) -> Resolver {
    Resolver {
        lookups: Some(Lookups::with(look_up).unwrap()),
        ..Resolver::default()
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

/// Asks for the name's port 80 and returns the answer, and whether it was known.
fn ask(resolver: &mut Resolver, serial: u64, name: &str, driver: &mut Driver) -> (Found, bool) {
    let name = (name.to_owned(), Family::Any);
    let known = resolver.look_up(serial, (name, 80), TOKEN, driver).unwrap();
    match known {
        Some(addresses) => (Ok(addresses), true),
        None => (wait(resolver, driver).1, false),
    }
}

fn wait(resolver: &mut Resolver, driver: &Driver) -> ConnectionAnswer {
    loop {
        if let Some(answer) = resolver.next_answer(driver.now()) {
            return answer;
        }
        let lookups = resolver.lookups.as_ref().unwrap();
        sys::io::wait_readable(lookups, None).unwrap();
    }
}

#[test]
fn a_name_is_looked_up_once_and_again_after_its_addresses_failed() {
    static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
    let (mut driver, _peer) = driver();
    let mut resolver = resolver(|_| {
        LOOKUPS.fetch_add(1, SeqCst);
        Ok(vec![address(0)])
    });
    let found = Ok(vec![address(80)]);
    for known in [false, true, true] {
        let answer = ask(&mut resolver, 1, "db", &mut driver);
        assert_eq!(answer, (found.clone(), known));
    }
    assert_eq!(LOOKUPS.load(SeqCst), 1);
    resolver.forget(&("db".into(), Family::Any));
    assert_eq!(ask(&mut resolver, 1, "db", &mut driver), (found, false));
    assert_eq!(LOOKUPS.load(SeqCst), 2);
}

#[test]
fn connections_that_wait_for_one_name_share_its_lookup() {
    static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
    static GO: AtomicUsize = AtomicUsize::new(0);
    let (mut driver, _peer) = driver();
    let mut resolver = resolver(|_| {
        LOOKUPS.fetch_add(1, SeqCst);
        while GO.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        Ok(vec![address(0)])
    });
    for serial in 1..=100_u16 {
        let name = ("db".to_owned(), Family::Any);
        let known = resolver
            .look_up(serial.into(), (name, serial), TOKEN, &mut driver)
            .unwrap();
        assert_eq!(known, None);
    }
    GO.store(1, SeqCst);
    for serial in 1..=100_u16 {
        let answer = wait(&mut resolver, &driver);
        assert_eq!(answer, (serial.into(), Ok(vec![address(serial)])));
    }
    assert_eq!(LOOKUPS.load(SeqCst), 1);
}

#[test]
fn a_failure_is_not_kept_and_other_names_wait_for_a_thread() {
    static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
    let (mut driver, _peer) = driver();
    let mut resolver = resolver(|lookup| {
        LOOKUPS.fetch_add(1, SeqCst);
        Err(format!("no {}", lookup.host))
    });
    for _ in 0..2 {
        let answer = ask(&mut resolver, 1, "db", &mut driver);
        assert_eq!(answer, (Err("no db".into()), false));
    }
    assert_eq!(LOOKUPS.load(SeqCst), 2);
    let count = 200_u64;
    for serial in 0..count {
        let name = (serial.to_string(), Family::Any);
        let known = resolver
            .look_up(serial, (name, 80), TOKEN, &mut driver)
            .unwrap();
        assert_eq!(known, None);
    }
    let mut answered: Vec<u64> = (0..count).map(|_| wait(&mut resolver, &driver).0).collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..count).collect::<Vec<_>>());
}

/// Otherwise a peer that opens and gives up connections to dead names fills the memory, and every
/// later lookup waits until theirs have ended.
#[test]
fn lookups_of_connections_that_are_gone_do_not_wait() {
    static GO: AtomicUsize = AtomicUsize::new(0);
    /// More than are looked up at a time.
    const COUNT: u64 = 200;
    let (mut driver, _peer) = driver();
    let mut resolver = resolver(|_| {
        while GO.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        Ok(vec![address(0)])
    });
    let mut ask = |resolver: &mut Resolver, serial: u64, name: u64| {
        let name = (name.to_string(), Family::Any);
        let known = resolver.look_up(serial, (name, 1), TOKEN, &mut driver);
        assert_eq!(known.unwrap(), None);
    };
    (0..COUNT).for_each(|serial| ask(&mut resolver, serial, serial));
    (0..COUNT - 1).for_each(|serial| resolver.cancel(serial));
    assert!(resolver.names.len() < 100, "{}", resolver.names.len());
    assert_eq!(resolver.names.len(), resolver.by_lookup.len());
    // One that waits for a lookup in progress gets its answer.
    ask(&mut resolver, COUNT, 0);
    GO.store(1, SeqCst);
    let mut answered = [
        wait(&mut resolver, &driver).0,
        wait(&mut resolver, &driver).0,
    ];
    answered.sort_unstable();
    assert_eq!(answered, [COUNT - 1, COUNT]);
}

/// Nothing else reports the answers after it.
#[test]
fn an_answer_that_belongs_to_nothing_hides_no_other() {
    static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
    let (mut driver, _peer) = driver();
    let mut resolver = resolver(|_| {
        LOOKUPS.fetch_add(1, SeqCst);
        Ok(vec![address(0)])
    });
    resolver.lookups.as_mut().unwrap().start(Lookup {
        serial: 999,
        host: "nobody".into(),
        port: 0,
        family: Family::Any,
    });
    let lookups = resolver.lookups.as_ref().unwrap();
    sys::io::wait_readable(lookups, None).unwrap();
    let name = ("db".to_owned(), Family::Any);
    let known = resolver.look_up(7, (name, 80), TOKEN, &mut driver);
    assert_eq!(known.unwrap(), None);
    while LOOKUPS.load(SeqCst) < 2 {
        std::thread::yield_now();
    }
    let answer = wait(&mut resolver, &driver);
    assert_eq!(answer, (7, Ok(vec![address(80)])));
}

#[test]
fn a_flow_of_datagrams_that_cannot_be_connected_forgets_the_addresses() {
    let (mut driver, _peer) = driver();
    let mut forwards = Forwards::new(ForwardSettings {
        keep_alive: false,
        family: Family::Any,
        permits: Box::new(|_| true),
    });
    let name = ("db".to_owned(), Family::Any);
    // The system refuses it to a socket that has not asked for broadcasts.
    let broadcast = SocketAddr::from(([255; 4], 0));
    let now = driver.now();
    let cache = &mut forwards.resolver.cache;
    cache.keep(name.clone(), &[broadcast], now);
    forwards.connect_udp(ChannelId(0), ("db".into(), 53), &[], None, &mut driver);
    let report = forwards.next_report();
    let failed = matches!(report, Some(ForwardReport::ConnectFailed { .. }));
    assert!(failed, "{report:?}");
    assert_eq!(forwards.resolver.cache.get(&name, 53, now), None);
}
