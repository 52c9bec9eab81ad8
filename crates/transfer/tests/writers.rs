//! Several programs that write one target in place at once: a copy that succeeds has left its
//! content. The server is Fulmar's, in memory, on real files.

mod near;
mod served;

use std::fs;
use std::path::Path;
use std::sync::{Condvar, Mutex};

use transfer::options::{Options, Resume};
use transfer::report::FileResult;

use near::{Event, Place, content, copy, spread};

const NOTICED: &str = "another program wrote this file while it was copied";

/// Longer than a file sent as a whole, and than the data of one turn.
const LEN: usize = 1_500_000;

fn options(resume: Resume, preserve: bool) -> Options {
    Options {
        preserve,
        ..spread(resume)
    }
}

/// Waits until a write gets another time than the previous one, also if times are updated by ticks.
fn tick(place: &Place) {
    let changed = || {
        let path = place.write("tick", b"");
        fs::metadata(path).unwrap().modified().unwrap()
    };
    let begun = changed();
    while changed() == begun {
        std::thread::yield_now();
    }
}

#[track_caller]
fn assert_noticed(result: &FileResult, what: &str) {
    let error = result.error.as_deref().expect(what);
    assert!(error.contains(NOTICED), "{what}: {error}");
}

#[test]
fn a_copy_that_stands_still_is_overtaken_and_fails_when_it_goes_on() {
    for (up, other_up, preserve, there) in (0..16).map(|bits| {
        let bit = |at: u32| bits >> at & 1 == 1;
        (bit(0), bit(1), bit(2), bit(3))
    }) {
        for at in [1, 2, 3] {
            for len in [9000, LEN, LEN - 1, 2 * LEN] {
                let place = Place::new();
                let (one, two) = (content(1, LEN), content(2, len));
                let [first, second] =
                    [("one", &one), ("two", &two)].map(|(name, of)| place.write(name, of));
                let to = place.0.join("target");
                if there {
                    fs::write(&to, content(9, LEN + 9000)).unwrap();
                }
                let what = format!("{up} {other_up} {preserve} {there} {at} {len}");
                let options = options(Resume::Never, preserve);
                let (mut inner, mut turn) = (None, 0);
                let mut run = || {
                    let began = fs::metadata(&to).map_or(0, |there| there.len());
                    turn += usize::from(began > 0 && began < one.len() as u64);
                    if turn != at || inner.is_some() {
                        return;
                    }
                    tick(&place);
                    let result = copy(other_up, &second, &to, &options, 1, Event::Nothing);
                    inner = Some((result.error, fs::read(&to).unwrap() == two));
                };
                let outer = copy(up, &first, &to, &options, 1, Event::Each(&mut run));
                assert_eq!(inner, Some((None, true)), "{what}");
                assert_noticed(&outer, &what);
                assert!(fs::read(&to).unwrap() == two, "{what}");
            }
        }
    }
}

/// What it is called, and what it is.
type Deed<'d> = (&'d str, &'d dyn Fn(&Path));

#[test]
fn another_program_is_noticed_whatever_it_does_to_the_file() {
    use std::os::unix::fs::FileExt;
    let begun = std::time::UNIX_EPOCH;
    let open = |to: &Path| fs::File::options().write(true).open(to).unwrap();
    let deeds: [Deed<'_>; 5] = [
        ("writes", &|to| open(to).write_all_at(b"x", 7).unwrap()),
        ("appends", &|to| {
            let file = open(to);
            let end = file.metadata().unwrap().len();
            file.write_all_at(b"x", end).unwrap();
        }),
        ("cuts", &|to| open(to).set_len(9).unwrap()),
        ("cuts all", &|to| fs::write(to, b"").unwrap()),
        ("sets the time", &|to| open(to).set_modified(begun).unwrap()),
    ];
    for (does, deed) in deeds {
        for up in [true, false] {
            let place = Place::new();
            let from = place.write("from", &content(1, LEN));
            let to = place.0.join("target");
            let mut after = Vec::new();
            let mut run = || {
                tick(&place);
                deed(&to);
                after = fs::read(&to).unwrap();
            };
            let event = Event::Runs(6, &mut run);
            let result = copy(up, &from, &to, &spread(Resume::Never), 1, event);
            assert_noticed(&result, &format!("up {up}, {does}"));
            // The file is left unchanged: it may be the other program's.
            assert!(fs::read(&to).unwrap() == after, "up {up}, {does}");
        }
    }
}

#[test]
fn a_slow_copy_is_none_the_worse_for_what_changes_no_content() {
    use std::os::unix::fs::PermissionsExt;
    for (up, resume) in [
        (true, Resume::Never),
        (false, Resume::Never),
        (true, Resume::Proven),
    ] {
        let place = Place::new();
        let whole = content(1, LEN);
        let from = place.write("from", &whole);
        let folder = place.empty("to");
        let (to, moved) = (folder.join("target"), folder.join("moved"));
        if resume == Resume::Proven {
            fs::write(&to, &whole[..300_000]).unwrap();
        }
        let mut turn = 0;
        let mut run = || {
            turn += 1;
            tick(&place);
            let there = [&to, &moved].into_iter().find(|path| path.exists());
            let Some(there) = there else { return };
            fs::read(there).unwrap();
            let mode = 0o600 | (turn % 8);
            fs::set_permissions(there, fs::Permissions::from_mode(mode)).unwrap();
            let _ = fs::hard_link(there, folder.join(format!("link {turn}")));
            if there == &to && turn > 5 {
                fs::rename(&to, &moved).unwrap();
            }
        };
        let result = copy(
            up,
            &from,
            &to,
            &options(resume, true),
            1,
            Event::Each(&mut run),
        );
        assert_eq!(result.error, None, "up {up}");
        assert!(turn > 6 && fs::read(&moved).unwrap() == whole, "up {up}");
    }
}

/// Lets one of several threads run at a time, in an order that follows from a seed.
struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    random: u64,
    alive: Vec<usize>,
    current: usize,
}

impl Turns {
    fn new(seed: u64, threads: usize) -> Self {
        let mut state = State {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            alive: (0..threads).collect(),
            current: 0,
        };
        state.choose();
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn wait(&self, own: usize) {
        let state = self.state.lock().unwrap();
        let turn = self.changed.wait_while(state, |state| state.current != own);
        drop(turn.unwrap());
    }

    fn pass(&self, own: usize) {
        self.state.lock().unwrap().choose();
        self.changed.notify_all();
        self.wait(own);
    }

    fn leave(&self, own: usize) {
        let mut state = self.state.lock().unwrap();
        state.alive.retain(|thread| *thread != own);
        state.choose();
        self.changed.notify_all();
    }
}

impl State {
    fn choose(&mut self) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let count = u64::try_from(self.alive.len()).unwrap();
        let at = (self.random >> 11).checked_rem(count).unwrap_or(0);
        self.current = self
            .alive
            .get(usize::try_from(at).unwrap())
            .copied()
            .unwrap_or(0);
    }
}

#[test]
fn of_copies_that_take_turns_each_that_ends_well_has_left_its_content() {
    let (mut good, mut failed) = (0, 0);
    for seed in 0..160_u64 {
        let bit = |at: u32| seed >> at & 1 == 1;
        let resume = if seed % 5 == 0 {
            Resume::Proven
        } else {
            Resume::Never
        };
        let small = if seed % 7 == 0 { 9000 } else { LEN };
        let place = Place::new();
        let contents = [content(1, LEN), content(2, small + usize::from(bit(4)))];
        let from = [0, 1].map(|at| place.write(&at.to_string(), &contents[at]));
        let to = place.0.join("target");
        if bit(2) {
            fs::write(
                &to,
                &content(1, LEN * 2)[..if bit(3) { LEN / 3 } else { LEN * 2 }],
            )
            .unwrap();
        }
        let turns = Turns::new(seed, 2);
        let ends: Vec<bool> = std::thread::scope(|scope| {
            let copies = [0, 1].map(|own| {
                let (turns, from, to, whole) = (&turns, &from[own], &to, &contents[own]);
                let up = bit(own.try_into().unwrap());
                scope.spawn(move || {
                    turns.wait(own);
                    let mut pass = || turns.pass(own);
                    let options = options(resume, bit(5));
                    let result = copy(up, from, to, &options, 1, Event::Each(&mut pass));
                    let there = fs::read(to).unwrap();
                    turns.leave(own);
                    if result.error.is_none() {
                        assert!(there == *whole, "seed {seed}, {own}");
                    } else if resume == Resume::Never {
                        assert_noticed(&result, &format!("seed {seed}, {own}"));
                    }
                    result.error.is_none()
                })
            });
            copies.map(|copy| copy.join().unwrap()).into()
        });
        good += usize::from(ends.contains(&true));
        failed += usize::from(ends.contains(&false));
    }
    // They interfere, and rarely both fail.
    assert!(failed > 60 && good > 120, "{good} {failed}");
}
