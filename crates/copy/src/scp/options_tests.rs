use super::*;

#[test]
fn each_flag_of_the_table_is_known() {
    for flag in flags::SCP {
        let dashes = if flag.name.len() == 1 { "-" } else { "--" };
        let args = [format!("{dashes}{}", flag.name), "1".to_owned()];
        let parsed = ScpOptions::parse(args.map(OsString::from).to_vec());
        let is_unknown = |why: &String| why.starts_with("unknown option");
        assert!(!parsed.as_ref().is_err_and(is_unknown), "{parsed:?}");
    }
}
