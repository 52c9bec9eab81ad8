//! Compares a dump with OpenSSH's output (testdata/README).

/// A line of OpenSSH's output that ours may lack, or may have with another value.
#[derive(Clone, Copy)]
pub(crate) struct Difference {
    /// The keyword, in lower case; a trailing `*` matches any ending.
    pub(crate) keyword: &'static str,
    /// The reason.
    pub(crate) reason: &'static str,
}

/// A file of testdata: its name, its text, and OpenSSH's output.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) theirs: &'static str,
}

macro_rules! case {
    ($folder:literal, $name:literal) => {
        $crate::golden::case!($folder, $name, "out")
    };
    ($folder:literal, $name:literal, $output:literal) => {
        $crate::golden::Case {
            name: $name,
            text: include_str!(concat!("../../testdata/", $folder, "/", $name, ".conf")),
            theirs: include_str!(concat!(
                "../../testdata/",
                $folder,
                "/",
                $name,
                ".",
                $output
            )),
        }
    };
}

pub(crate) use case;

/// Fulmar's own keywords that both files have.
const BOTH_SIDES: &[Difference] = &[
    own("usemptcp"),
    own("enablehwcompression"),
    own("hwcompressionlibrary"),
    own("hwcompressionverify"),
    own("cryptothreads"),
    own("windowmemory"),
    // OpenSSH's level is always 6, on one thread, and it compresses everything.
    own("compressionlevel"),
    own("compressionadaptive"),
    own("compressionthreads"),
];

/// A keyword that differs.
pub(crate) const fn differs(keyword: &'static str, reason: &'static str) -> Difference {
    Difference { keyword, reason }
}

/// A keyword that OpenSSH does not have.
pub(crate) const fn own(keyword: &'static str) -> Difference {
    differs(keyword, "Fulmar's own")
}

/// Compares the dumps of `cases`, which `dump` makes of a case and the remark in its first line,
/// with OpenSSH's. `differences` hold in all files, `defaults` in those that do not set the
/// keyword, `own` in one.
pub(crate) fn compare_all(
    cases: &[Case],
    differences: &[Difference],
    defaults: &[Difference],
    own: &[(&str, Difference)],
    dump: impl Fn(&Case, &str) -> String,
) {
    let sets = |text: &str, keyword: &str| {
        let mut lines = text.lines();
        lines.any(|line| line.trim().to_ascii_lowercase().starts_with(keyword))
    };
    let mut pairs = Vec::new();
    for case in cases {
        let first = case.text.lines().next().unwrap();
        let ours = dump(case, first.split_once(": ").unwrap().1);
        let defaults = defaults.iter().filter(|d| !sets(case.text, d.keyword));
        let own = own.iter().filter(|(file, _)| *file == case.name);
        let relevant = differences.iter().chain(BOTH_SIDES).chain(defaults);
        let relevant: Vec<&Difference> = relevant.chain(own.map(|(_, d)| d)).collect();
        compare(case.name, &ours, case.theirs, &relevant);
        pairs.push((ours, case.theirs.to_owned()));
    }
    for differences in [differences, BOTH_SIDES, defaults] {
        all_needed(differences, &pairs);
    }
}

/// As [`compare_all`] for one list of differences, and byte for byte.
pub(crate) fn compare_exactly(
    cases: &[Case],
    differences: &[Difference],
    dump: impl Fn(&Case, &str) -> String,
) {
    let mut pairs = Vec::new();
    for case in cases {
        let first = case.text.lines().next().unwrap();
        let ours = dump(case, first.split_once(": ").unwrap().1);
        let relevant: Vec<&Difference> = differences.iter().chain(BOTH_SIDES).collect();
        let kept = |dump: &str| -> Vec<String> {
            let lines = dump.lines().filter(|line| {
                let lower = line.to_ascii_lowercase();
                !relevant.iter().any(|difference| covers(difference, &lower))
            });
            lines.map(str::to_owned).collect()
        };
        assert_eq!(kept(&ours), kept(case.theirs), "{}", case.name);
        pairs.push((ours, case.theirs.to_owned()));
    }
    all_needed(differences, &pairs);
}

/// Compares two dumps line by line, in order, leaving the keywords of `differences` out of both.
fn compare(case: &str, ours: &str, theirs: &str, differences: &[&Difference]) {
    let kept = |dump: &str| -> Vec<String> {
        dump.lines()
            .map(|line| match line.split_once(' ') {
                // OpenSSH prints one keyword with a capital letter inside.
                Some((keyword, value)) => format!("{} {value}", keyword.to_ascii_lowercase()),
                None => line.to_owned(),
            })
            .filter(|line| {
                !differences
                    .iter()
                    .any(|difference| covers(difference, line))
            })
            .collect()
    };
    let (ours, theirs) = (kept(ours), kept(theirs));
    for (position, (our_line, their_line)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(our_line, their_line, "{case}: line {position}");
    }
    assert_eq!(ours.len(), theirs.len(), "{case}: {ours:#?} {theirs:#?}");
}

/// Fails for a listed difference that no line of either dump needs any more.
fn all_needed(differences: &[Difference], pairs: &[(String, String)]) {
    for difference in differences {
        assert!(!difference.reason.is_empty());
        let lines = |dump: &str| -> Vec<String> {
            dump.lines()
                .filter(|line| covers(difference, &line.to_ascii_lowercase()))
                .map(str::to_owned)
                .collect()
        };
        let needed = pairs
            .iter()
            .any(|(ours, theirs)| lines(ours) != lines(theirs));
        assert!(needed, "{} does not differ any more", difference.keyword);
    }
}

fn covers(difference: &Difference, line: &str) -> bool {
    let keyword = line.split(' ').next().unwrap_or_default();
    match difference.keyword.strip_suffix('*') {
        Some(start) => keyword.starts_with(start),
        None => keyword == difference.keyword,
    }
}
