use super::*;

#[test]
fn only_what_accept_env_names_is_taken_from_a_client() {
    let mut env = Environment::default();
    let patterns = ["LANG".to_owned(), "LC_*".to_owned()];
    assert!(env.accept(&patterns, b"LC_ALL", b"C").is_ok());
    assert!(env.accept(&patterns, b"LD_PRELOAD", b"/tmp/x.so").is_err());
    assert!(env.accept(&patterns, b"LC_X\0Y", b"1").is_err());
    assert!(env.accept(&patterns, b"LC_X", b"1\0LD_PRELOAD=x").is_err());
    assert!(env.accept(&[], b"GIT_PROTOCOL", b"2").is_err());
    // Each word of AcceptEnv is one pattern, not a list.
    assert!(env.accept(&["A,B".to_owned()], b"B", b"1").is_err());
    assert_eq!(env.iter().count(), 1);
}

#[test]
fn a_client_cannot_send_variables_without_end() {
    let mut env = Environment::default();
    let patterns = ["*".to_owned()];
    let taken = (0..100_000)
        .filter(|n: &u32| {
            env.accept(&patterns, format!("V{n}").as_bytes(), b"x")
                .is_ok()
        })
        .count();
    assert_eq!(taken, MAX_CLIENT_VARIABLES);
    assert_eq!(
        env.accept(&patterns, b"W", b"x"),
        Err(IgnoredVariable::TooMany)
    );
    // As long as the kernel lets a variable be, and no longer.
    let mut env = Environment::default();
    let mut ask = |name: &str, length| env.accept(&patterns, name.as_bytes(), &vec![b'x'; length]);
    assert_eq!(ask("V", MAX_VARIABLE_BYTES), Err(IgnoredVariable::TooLong));
    assert_eq!(ask("V", MAX_VARIABLE_BYTES - 1), Ok(()));
    let taken = (0..MAX_CLIENT_VARIABLES - 1).filter(|n| ask(&format!("V{n}"), 100_000).is_ok());
    assert!(taken.count() < MAX_CLIENT_BYTES / 100_000);
}

#[test]
fn a_variable_that_no_process_can_have_is_left_out() {
    let mut env = Environment::default();
    env.set("", "x");
    env.set("A=B", "x");
    env.set("A", "x\0y");
    assert_eq!(env, Environment::default());
}

#[test]
fn user_files_give_only_what_the_pattern_lets_through() {
    let file = b"# comment\n LANG=C \nLD_PRELOAD=x\nnonsense\n=y\nFOO=a=b";
    let all: Vec<_> = user_lines(file, &UserEnvironment::Yes).collect();
    assert_eq!(all.len(), 4);
    let list = UserEnvironment::Matching("LANG,FOO".into());
    let some: Vec<_> = user_lines(file, &list).collect();
    assert_eq!(some, [(&b"LANG"[..], &b"C "[..]), (b"FOO", b"a=b")]);
    assert_eq!(user_lines(file, &UserEnvironment::No).count(), 0);
}

#[test]
fn user_files_keep_blanks_behind_values_and_bad_lines_are_told() {
    let file = b"# c\n\n \t\nA=1 \n \tB=2\t\nnonsense\n C D\n=y\n #x\n";
    let all: Vec<_> = user_lines(file, &UserEnvironment::Yes).collect();
    assert_eq!(all, [(&b"A"[..], &b"1 "[..]), (b"B", b"2\t"), (b"", b"y")]);
    assert_eq!(
        complaints(file, "/home/ada/.ssh/environment"),
        "Bad line 6 in /home/ada/.ssh/environment\nBad line 7 in /home/ada/.ssh/environment\n"
    );
    let much = complaints(&b"x\n".repeat(100_000), &"p".repeat(4000));
    assert!(much.lines().count() == MAX_BAD_LINES && much.len() < 4096);
}

#[test]
fn the_system_file_may_quote_and_export() {
    let file = b"export A=\"x y\"\nB='z'\nC=\"half\nD = d\n";
    let found: Vec<_> = system_lines(file).collect();
    assert_eq!(
        found,
        [
            (&b"A"[..], &b"x y"[..]),
            (b"B", b"z"),
            (b"C", b"\"half"),
            (b"D", b" d")
        ]
    );
}
