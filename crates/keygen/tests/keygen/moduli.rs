//! Moduli: lists, results and checkpoints that go with ssh-keygen's.

use super::Folder;

/// Lines without their time.
fn without_time(text: &str) -> Vec<&str> {
    text.lines()
        .map(|line| line.split_once(' ').unwrap().1)
        .collect()
}

/// The column, counted from 0.
fn column(line: &str, at: usize) -> &str {
    line.split(' ').nth(at).unwrap()
}

/// A hexadecimal number modulo a small one.
fn modulo(hex: &str, divisor: u64) -> u64 {
    hex.chars().fold(0, |rest, digit| {
        (16 * rest + u64::from(digit.to_digit(16).unwrap())) % divisor
    })
}

/// A list of candidates of 512 bits: everything that is done with lists, since the sieve goes
/// through all primes below 2^32 for it.
pub(super) fn lists_and_checkpoints_are_those_of_ssh_keygen(folder: &Folder) {
    let start = "70123456789ABCDEF".to_owned() + &"0123456789ABCDE".repeat(7) + "012345";
    let option = format!("start={start}");
    let run = folder.ours(
        &["-M", "generate", "-O", "bits=512", "-O", &option, "list"],
        "",
    );
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert!(
        run.err.contains("Sieve next 4177920 plus 511-bit"),
        "{}",
        run.err
    );
    // The odd primes below 2^32 but for 3.
    assert!(
        run.err.contains("Sieved with 203280219 small primes"),
        "{}",
        run.err
    );
    let list = folder.read("list");
    let lines: Vec<&str> = list.lines().collect();
    // 0.5076 % of 348160 positions, and five deviations.
    assert!((1557..=1978).contains(&lines.len()), "{}", lines.len());
    assert!(
        run.err
            .contains(&format!("Found {} candidates", lines.len()))
    );
    for line in &lines {
        let columns: Vec<&str> = line.split(' ').collect();
        assert_eq!(columns[0].len(), 14);
        assert_eq!(columns[1..6], ["4", "2", "203280219", "510", "0"]);
        let q = columns[6];
        assert_eq!(q.len(), 128);
        assert!(q.starts_with(&start[..100]));
        assert_eq!(modulo(q, 12), 5);
        for prime in [
            5,
            7,
            11,
            13,
            65_537,
            1_000_003,
            2_147_483_647,
            4_294_967_291,
        ] {
            let rest = modulo(q, prime);
            assert!(rest != 0 && !(2 * rest + 1).is_multiple_of(prime), "{q}");
        }
    }
    assert!(
        lines
            .windows(2)
            .all(|two| column(two[0], 6) < column(two[1], 6))
    );
    screened_in_any_way(folder, &list, lines.len());
}

/// The list is screened whole, from standard input, in two parts, and with a checkpoint of somebody's.
fn screened_in_any_way(folder: &Folder, list: &str, candidates: usize) {
    let screen = |args: &[&str], input: &str, out: &str| {
        let run = folder.ours(&[&["-M", "screen"], args, &[out]].concat(), input);
        assert_eq!(run.status, Some(0), "{}", run.err);
        run.err
    };
    let said = screen(&["-f", "list"], "", "whole");
    let whole = folder.read("whole");
    let found = without_time(&whole);
    assert!(found.len() > 5, "{}", found.len());
    let words = format!(
        "Found {} safe primes of {} candidates",
        found.len(),
        candidates
    );
    assert!(said.contains(&words), "{said}");
    for line in &found {
        assert!(line.starts_with("2 6 100 511 2 "), "{line}");
        assert_eq!(modulo(column(line, 5), 24), 11);
    }
    screen(&[], list, "input");
    assert_eq!(without_time(&folder.read("input")), found);
    // A pipe by a name, which can be read only once.
    screen(&["-f", "/dev/stdin"], list, "pipe");
    assert_eq!(without_time(&folder.read("pipe")), found);
    screen(&["-f", "list", "-O", "lines=700"], "", "parts");
    screen(&["-f", "list", "-O", "start-line=700"], "", "parts");
    assert_eq!(without_time(&folder.read("parts")), found);
    folder.write("state", "700\n");
    let said = screen(&["-f", "list", "-O", "checkpoint=state"], "", "rest");
    assert!(said.contains("checkpoint, line 700"), "{said}");
    assert!(!folder.path("state").exists());
    screen(&["-f", "list", "-O", "lines=700"], "", "first");
    let parts = folder.read("first") + &folder.read("rest");
    assert_eq!(without_time(&parts), found);
    screen(&["-f", "list", "-O", "generator=5"], "", "five");
    assert_eq!(folder.read("five"), "");

    if folder.have_theirs {
        folder.theirs_ok(&["-M", "screen", "-f", "list", "theirs"]);
        assert_eq!(without_time(&folder.read("theirs")), found);
        for flags in [
            ["lines=300", "start-line=5"],
            ["prime-tests=4", "start-line=600"],
        ] {
            let args = ["-M", "screen", "-f", "list", "-O", flags[0], "-O", flags[1]];
            folder.theirs_ok(&[&args[..], &["theirs2"]].concat());
            folder.ours_ok(&[&args[..], &["ours2"]].concat());
            let (ours, theirs) = (folder.read("ours2"), folder.read("theirs2"));
            assert_eq!(without_time(&ours), without_time(&theirs));
        }
    }
}

/// Lines that are no candidates of ours: tested moduli with either generator, damaged ones.
pub(super) fn tested_moduli_are_screened_again(folder: &Folder) {
    let Ok(file) = std::fs::read_to_string("/etc/ssh/moduli") else {
        println!("skipped: no /etc/ssh/moduli");
        return;
    };
    let of_2048 = |generator: &str| -> Vec<String> {
        file.lines()
            .filter(|line| !line.starts_with('#'))
            .filter(|line| column(line, 4) == "2047" && column(line, 5) == generator)
            .take(2)
            .map(str::to_owned)
            .collect()
    };
    let mut lines = vec!["# a comment".to_owned(), "short".to_owned()];
    lines.extend(of_2048("2"));
    lines.extend(of_2048("5"));
    assert_eq!(lines.len(), 6);
    // Without its generator, known composite, of another size, another number, another type.
    let good = lines[2].clone();
    lines.push(lines[4].replacen(" 5 ", " 0 ", 1));
    lines.push(good.replacen(" 2 6 ", " 2 7 ", 1));
    lines.push(good.replacen(" 2047 ", " 2046 ", 1));
    lines.push(format!("{}5", &good[..good.len() - 1]));
    lines.push(good.replacen(" 2 6 ", " 0 0 ", 1));
    folder.write("list", &(lines.join("\n") + "\n"));
    let args = ["-M", "screen", "-f", "list", "-O", "prime-tests=4"];
    folder.ours_ok(&[&args[..], &["ours"]].concat());
    let ours = folder.read("ours");
    let ours = without_time(&ours);
    assert_eq!(ours.len(), 6);
    assert!(ours[0].starts_with("2 6 104 2047 2 "), "{}", ours[0]);
    assert!(ours[5].starts_with("2 4 4 2047 2 "), "{}", ours[5]);
    if folder.have_theirs {
        folder.theirs_ok(&[&args[..], &["theirs"]].concat());
        assert_eq!(without_time(&folder.read("theirs")), ours);
    }
}

pub(super) fn moduli_are_made_in_one_step(folder: &Folder) {
    let start = format!("{}{}", "7FEDCBA987654321", "0".repeat(112));
    let option = format!("start={start}");
    let args = ["-M", "auto", "-b", "512", "-n", "6", "-O", &option];
    let run = folder.ours(&[&args[..], &["out"]].concat(), "");
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert!(
        run.err.contains("Found 6 safe primes of 512 bits"),
        "{}",
        run.err
    );
    let out = folder.read("out");
    let all = without_time(&out);
    assert_eq!(all.len(), 6);
    for line in &all {
        assert!(line.starts_with("2 6 100 511 2 FFDB97530ECA8642"), "{line}");
    }
    if folder.have_theirs {
        folder.theirs_ok(&["-M", "screen", "-f", "out", "screened"]);
        assert_eq!(folder.read("screened").lines().count(), 6);
    }
    // As a run that is interrupted after the third leaves it: the same window, and where to resume.
    let low = |line: &str| {
        let modulus = column(line, 5);
        u64::from_str_radix(&modulus[modulus.len() - 16..], 16).unwrap()
    };
    // p = 2 q + 1, and the first q is 5 modulo 12, at most 11 above the start.
    let up = (5 + 12 - modulo(&start, 12)) % 12;
    let next = ((low(all[2]) - 1) / 2 - up) / 12 + 1;
    let state = format!("auto 512 {start} 4000000 2000000 {next} 3\n");
    folder.write("state", &state);
    let resumed = [&args[..], &["-O", "checkpoint=state", "rest"]].concat();
    let run = folder.ours(&resumed, "");
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert!(
        run.err.contains("Loaded checkpoint: 3 of 6 found"),
        "{}",
        run.err
    );
    assert_eq!(without_time(&folder.read("rest")), all[3..]);
    assert!(!folder.path("state").exists());
    // Work of another size is not gone on with, and nothing is lost.
    let other = state.replace("auto 512 ", "auto 513 ");
    for damaged in [other.as_str(), "700\n", "\0", ""] {
        folder.write("state", damaged);
        let run = folder.ours(&resumed, "");
        assert_eq!(run.status, Some(255));
        assert!(run.err.contains("remove it to start again"), "{}", run.err);
        assert_eq!(folder.read("state"), damaged);
    }
}

pub(super) fn what_makes_no_moduli_is_refused(folder: &Folder) {
    folder.write("list", "x\n");
    for args in [
        &["-M", "generate", "-O", "bits=100", "out"][..],
        &["-M", "generate", "-O", "memory=5", "out"],
        &["-M", "generate", "-O", "start=12", "out"],
        &["-M", "generate", "-O", "bits=2048", "nodir/out"],
        &["-M", "screen", "-f", "nosuch", "out"],
        &["-M", "screen", "-f", "list", "nodir/out"],
        &["-M", "screen", "-f", "list", "-O", "prime-tests=3", "out"],
        &["-M", "screen", "-f", "list", "-O", "bits=2048", "out"],
        &["-M", "auto", "-n", "0", "out"],
        &["-M", "auto", "-n", "x", "out"],
        &["-M", "auto", "-b", "100", "out"],
        &["-M", "auto", "-b", "512", "nodir/out"],
        &["-M", "screen"],
        &["-M", "other", "out"],
    ] {
        let run = folder.ours(args, "");
        assert_eq!(run.status, Some(255), "{args:?}");
        assert!(!run.err.is_empty());
        assert!(!run.err.contains("panicked"), "{}", run.err);
    }
    let many = folder.ours(&["-M", "auto", "a", "b"], "");
    assert_eq!(many.status, Some(1));
    assert!(many.err.contains("usage:"));
    // No candidate is no failure, as with ssh-keygen.
    folder.ours_ok(&["-q", "-M", "screen", "-f", "list", "out"]);
    assert_eq!(folder.read("out"), "");
    let full = folder.ours(&["-M", "auto", "-b", "512", "-n", "1", "/dev/full"], "");
    assert_eq!(full.status, Some(255));
    assert!(full.err.contains("No space left"), "{}", full.err);
}
