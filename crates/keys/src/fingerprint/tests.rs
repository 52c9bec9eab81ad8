use super::*;
use crate::private_file;
use crate::test_support::{Folder, have_ssh_keygen};
use crate::{KeySpec, PrivateKey};

#[test]
fn fingerprints_and_pictures_are_those_of_ssh_keygen() {
    if !have_ssh_keygen() {
        return;
    }
    let folder = Folder::new("fingerprints");
    for (index, spec) in [
        KeySpec::Ed25519,
        KeySpec::Ecdsa(crate::EcCurve::P521),
        KeySpec::Rsa { bits: 1024 },
    ]
    .into_iter()
    .enumerate()
    {
        let key = PrivateKey::generate(spec).unwrap();
        let name = format!("key{index}");
        let file = private_file::write_openssh(&key, "c", None).unwrap();
        folder.write(&name, file.as_bytes());
        folder.write(
            &format!("{name}.pub"),
            format!("{} c\n", key.public().to_line()).as_bytes(),
        );
        for algorithm in ["md5", "sha1", "sha256", "sha384", "sha512"] {
            let theirs = folder.keygen_ok(&format!("-lv -E {algorithm} -f {name}"));
            let hash = algorithm_from_name(algorithm).unwrap();
            let public = key.public();
            let blob = public.blob();
            let ours = format!(
                "{} {} c ({})\n{}\n",
                public.bits(),
                of_blob(&blob, hash),
                public.key_type().label(),
                randomart(&blob, hash, public.key_type().label(), public.bits()),
            );
            assert_eq!(ours, theirs);
        }
    }
}

#[test]
fn unknown_hashes_have_no_fingerprint() {
    assert_eq!(algorithm_from_name("sha3"), None);
    assert_eq!(algorithm_from_name("Sha256"), Some(HashAlgorithm::Sha256));
}

#[test]
fn bubblebabble_is_that_of_its_specification() {
    // The test vectors of Huima's draft.
    for (bytes, words) in [
        (&b""[..], "xexax"),
        (b"1234567890", "xesef-disof-gytuf-katof-movif-baxux"),
        (b"Pineapple", "xigak-nyryk-humil-bosek-sonax"),
    ] {
        assert_eq!(bubblebabble_of(bytes), words, "{bytes:?}");
    }
}
