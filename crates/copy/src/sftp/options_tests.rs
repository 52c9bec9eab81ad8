use super::*;

#[test]
fn each_flag_of_the_table_is_known() {
    for flag in flags::SFTP {
        let args = [format!("-{}", flag.name), "1".to_owned()];
        let parsed = SftpOptions::parse(args.map(OsString::from).to_vec());
        let is_unknown =
            |why: &BadLine| matches!(why, BadLine::Usage(why) if why.starts_with("unknown option"));
        assert!(!parsed.as_ref().is_err_and(is_unknown), "{parsed:?}");
    }
}

#[test]
fn a_bad_value_is_no_question_of_usage() {
    let said =
        |args: &[&str]| SftpOptions::parse(args.iter().map(OsString::from).collect()).unwrap_err();
    assert!(matches!(said(&["-1"]), BadLine::Value(_)));
    assert!(matches!(said(&["-l", "0"]), BadLine::Usage(_)));
    assert!(matches!(said(&["-F"]), BadLine::Usage(_)));
    let line = BadLine::Value("Invalid buffer size \"0\"".to_owned());
    assert_eq!(said(&["-B", "0"]), line);
    for port in ["0", "x", "99999", ""] {
        let line = BadLine::Value(format!("Bad port \"{port}\""));
        assert_eq!(said(&["-P", port, "h"]), line);
    }
}
