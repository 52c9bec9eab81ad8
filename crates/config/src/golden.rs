//! Compares a dump with OpenSSH's output (testdata/README).

/// A line of OpenSSH's output that ours may lack, or may have with another value.
pub(crate) struct Difference {
    /// The keyword, in lower case; a trailing `*` matches any ending.
    pub(crate) keyword: &'static str,
    /// The reason.
    pub(crate) reason: &'static str,
}

/// Fulmar's own keywords that both files have.
pub(crate) const BOTH_SIDES: &[Difference] = &[
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

/// A keyword that OpenSSH does not have.
pub(crate) const fn own(keyword: &'static str) -> Difference {
    Difference {
        keyword,
        reason: "Fulmar's own",
    }
}

/// Compares two dumps line by line, in order, leaving the keywords of `differences` out of both.
pub(crate) fn compare(case: &str, ours: &str, theirs: &str, differences: &[&Difference]) {
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
pub(crate) fn all_needed(differences: &[Difference], pairs: &[(String, String)]) {
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
