//! Signed statements against the programs of others: OpenSSL and OpenSSH, where they are installed.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "what a test has set up itself must be there, and a skipped test says so"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use relayproof::sign::{
    Envelope, Error, KeyProblem, NAMESPACE, Outcome, PAYLOAD_TYPE, SigningKey, Statement, Subject,
    TestResult, VerifyingKey, pae, verify, verify_file,
};

fn statement() -> Statement {
    let result = TestResult {
        result: Outcome::Warned,
        configuration: vec![Subject::of("specs/relay.yaml", b"relayproof: 1\n")],
        url: Some("https://ci.example/run/7".to_owned()),
        passed_tests: vec!["nova/large/chat/success >= 99%".to_owned()],
        warned_tests: vec!["nova/large/chat/tps.p5 > 20".to_owned()],
        failed_tests: vec![],
    };
    let subjects = vec![
        Subject::new("evidence", "0123456789abcdef".repeat(4)).unwrap(),
        Subject::of("report.json", b"{}"),
    ];
    Statement::new(subjects, result)
}

/// Runs a program in a folder; `None`, and a line that says so, where it is not installed.
fn run(folder: &Path, program: &str, arguments: &[&str], input: Option<&Path>) -> Option<Output> {
    let input = input.map_or_else(Stdio::null, |path| fs::File::open(path).unwrap().into());
    let ran = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(input)
        .output();
    match ran {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: {program}: {error}");
            None
        }
    }
}

/// Runs a program that has to succeed.
fn done(folder: &Path, program: &str, arguments: &[&str]) -> Option<()> {
    let output = run(folder, program, arguments, None)?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    Some(())
}

/// The payload's signed bytes and each signature, taken out of an envelope as anybody would.
fn taken_apart(envelope: &str) -> (Vec<u8>, Vec<String>) {
    let json: serde_json::Value = serde_json::from_str(envelope).unwrap();
    let payload = base64(json["payload"].as_str().unwrap());
    let signatures = json["signatures"].as_array().unwrap();
    let signatures = signatures
        .iter()
        .map(|it| it["sig"].as_str().unwrap().to_owned())
        .collect();
    (pae(PAYLOAD_TYPE, &payload), signatures)
}

/// Base64 by hand, so that the test does not stand on what it tests.
fn base64(text: &str) -> Vec<u8> {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = text
        .bytes()
        .filter(|letter| *letter != b'=')
        .map(|letter| letters.iter().position(|it| *it == letter).unwrap())
        .map(|value| format!("{value:06b}"))
        .collect();
    bits.as_bytes()
        .chunks_exact(8)
        .map(|bits| u8::from_str_radix(std::str::from_utf8(bits).unwrap(), 2).unwrap())
        .collect()
}

#[test]
fn openssl_makes_our_keys_and_takes_our_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let made = done(
        at,
        "openssl",
        &["genpkey", "-algorithm", "ed25519", "-out", "key.pem"],
    );
    if made.is_none() {
        return;
    }
    done(
        at,
        "openssl",
        &["pkey", "-in", "key.pem", "-pubout", "-out", "pub.pem"],
    );
    let key = SigningKey::read(&at.join("key.pem")).unwrap();
    let trusted = VerifyingKey::read_all(&at.join("pub.pem")).unwrap();
    assert_eq!(trusted, [key.public().clone()]);

    let envelope = Envelope::sign(&statement(), &key)
        .unwrap()
        .to_json()
        .unwrap();
    fs::write(at.join("report.dsse.json"), &envelope).unwrap();
    let verified = verify_file(&at.join("report.dsse.json"), &trusted).unwrap();
    assert_eq!(verified.statement, statement());
    assert!(verified.statement.subjects()[1].is_of(b"{}"));

    let (signed, signatures) = taken_apart(&envelope);
    fs::write(at.join("signed"), &signed).unwrap();
    fs::write(at.join("signature"), base64(&signatures[0])).unwrap();
    let check = [
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        "pub.pem",
        "-rawin",
        "-in",
        "signed",
        "-sigfile",
        "signature",
    ];
    done(at, "openssl", &check);
    fs::write(at.join("signed"), &signed[1..]).unwrap();
    let output = run(at, "openssl", &check, None).unwrap();
    assert!(!output.status.success(), "openssl takes anything");

    // The key id is what `openssl … | sha256sum` says of the public key.
    done(
        at,
        "openssl",
        &[
            "pkey", "-pubin", "-in", "pub.pem", "-outform", "DER", "-out", "pub.der",
        ],
    );
    let der = Subject::of("", &fs::read(at.join("pub.der")).unwrap());
    assert_eq!(trusted[0].keyid(), der.sha256());
}

#[test]
fn openssl_keys_that_are_of_no_use_are_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let aes = ["-aes-256-cbc", "-pass", "pass:swordfish"];
    let hidden = [
        &["genpkey", "-algorithm", "ed25519", "-out", "hidden.pem"][..],
        &aes,
    ]
    .concat();
    if done(at, "openssl", &hidden).is_none() {
        return;
    }
    let ec = [
        "genpkey",
        "-algorithm",
        "EC",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-out",
        "ec.pem",
    ];
    done(at, "openssl", &ec);
    done(
        at,
        "openssl",
        &["pkey", "-in", "ec.pem", "-pubout", "-out", "ec.pub"],
    );
    done(at, "openssl", &["ec", "-in", "ec.pem", "-out", "sec1.pem"]);
    let problem = |name: &str| told(SigningKey::read(&at.join(name)), &at.join(name));
    assert!(matches!(problem("hidden.pem"), KeyProblem::Encrypted(how) if how.contains("openssl")));
    assert!(matches!(problem("ec.pem"), KeyProblem::Kind(_)));
    assert!(matches!(problem("sec1.pem"), KeyProblem::Kind(kind) if kind == "EC"));
    assert_eq!(problem("ec.pub"), KeyProblem::Public);
    let problem = |name: &str| told(VerifyingKey::read_all(&at.join(name)), &at.join(name));
    assert!(matches!(problem("ec.pub"), KeyProblem::Kind(_)));
    assert_eq!(problem("ec.pem"), KeyProblem::Private);
    assert_eq!(problem("hidden.pem"), KeyProblem::Private);
}

/// What is said of a key file, which names the file and none of its lines.
fn told<T: std::fmt::Debug>(read: Result<T, Error>, path: &Path) -> KeyProblem {
    let error = read.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(
        error.to_string().starts_with(path.to_str().unwrap()),
        "{text}"
    );
    assert!(!error.is_refusal());
    for line in fs::read_to_string(path).unwrap().lines() {
        assert!(line.len() < 12 || !text.contains(line), "{text}");
    }
    let Error::Key { problem, .. } = error else {
        panic!("{error:?}");
    };
    problem
}

/// The shell blocks of docs/signing.md, in order: our own commands, which tests/cli runs, both kinds
/// of keys, the signed bytes, both checks.
fn blocks() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/signing.md");
    let text = fs::read_to_string(page).unwrap();
    text.split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_commands_of_the_page_check_an_envelope_without_this_program() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for program in ["sh", "jq", "openssl", "ssh-keygen", "base64", "fold"] {
        if run(at, program, &["--version"], None).is_none() {
            return;
        }
    }
    let [own, openssl, ssh, signed, plain, armoured] = <[String; 6]>::try_from(blocks()).unwrap();
    assert!(own.starts_with("relayproof report "), "{own}");
    let shell = |block: &str| {
        let output = run(at, "sh", &["-euc", block], None).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    for block in [&openssl, &ssh] {
        let (done, said) = shell(block);
        assert!(done, "{block}{said}");
    }
    for (key, check) in [("acceptance.key.pem", &plain), ("acceptance", &armoured)] {
        let key = SigningKey::read(&at.join(key)).unwrap();
        let envelope = Envelope::sign(&statement(), &key).unwrap();
        let envelope = envelope.to_json().unwrap();
        fs::write(at.join("report.dsse.json"), &envelope).unwrap();
        let (good, said) = shell(&format!("{signed}{check}"));
        assert!(good, "{check}{said}");
        // The commands are a check only if they refuse another payload.
        let other = envelope.replace("\"payload\":\"ey", "\"payload\":\"eX");
        assert_ne!(other, envelope);
        fs::write(at.join("report.dsse.json"), other).unwrap();
        assert!(!shell(&format!("{signed}{check}")).0, "{check}");
    }
}

fn ssh_key(at: &Path, name: &str, kind: &[&str], passphrase: &str) -> Option<PathBuf> {
    let arguments = [
        kind,
        &["-q", "-N", passphrase, "-C", "me@example.com", "-f", name],
    ]
    .concat();
    done(at, "ssh-keygen", &arguments)?;
    Some(at.join(name))
}

#[test]
fn ssh_keygen_takes_our_signatures_and_we_take_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let Some(path) = ssh_key(at, "key", &["-t", "ed25519"], "") else {
        return;
    };
    let key = SigningKey::read(&path).unwrap();
    let trusted = VerifyingKey::read_all(&at.join("key.pub")).unwrap();
    assert_eq!(trusted[0].comment(), "me@example.com");
    assert_eq!(trusted[0].keyid(), key.public().keyid());
    let shown = run(at, "ssh-keygen", &["-l", "-f", "key.pub"], None).unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(trusted[0].keyid()), "{shown}");

    let envelope = Envelope::sign(&statement(), &key)
        .unwrap()
        .to_json()
        .unwrap();
    assert_eq!(
        verify(envelope.as_bytes(), &trusted).unwrap().statement,
        statement()
    );

    // Ours, by theirs: the armour is all that is missing.
    let (signed, signatures) = taken_apart(&envelope);
    let folded: Vec<&str> = signatures[0]
        .as_bytes()
        .chunks(70)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    let armoured = format!(
        "-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n",
        folded.join("\n")
    );
    fs::write(at.join("signed"), &signed).unwrap();
    fs::write(at.join("ours.sig"), &armoured).unwrap();
    let public = fs::read_to_string(at.join("key.pub")).unwrap();
    fs::write(at.join("allowed"), format!("me@example.com {public}")).unwrap();
    let check = |namespace: &'static str, signature: &'static str| {
        let arguments = [
            "-Y",
            "verify",
            "-f",
            "allowed",
            "-I",
            "me@example.com",
            "-n",
            namespace,
            "-s",
            signature,
        ];
        let output = run(at, "ssh-keygen", &arguments, Some(&at.join("signed"))).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    let (good, said) = check(NAMESPACE, "ours.sig");
    assert!(good, "{said}");
    assert!(!check("git", "ours.sig").0);
    fs::write(at.join("signed"), &signed[1..]).unwrap();
    assert!(!check(NAMESPACE, "ours.sig").0);

    // Theirs, by us: the same bytes, for the scheme has no chance in it.
    fs::write(at.join("signed"), &signed).unwrap();
    done(
        at,
        "ssh-keygen",
        &["-q", "-Y", "sign", "-n", NAMESPACE, "-f", "key", "signed"],
    );
    let theirs = fs::read_to_string(at.join("signed.sig")).unwrap();
    assert_eq!(theirs, armoured);

    // A signature for another purpose is none for this one.
    fs::remove_file(at.join("signed.sig")).unwrap();
    done(
        at,
        "ssh-keygen",
        &["-q", "-Y", "sign", "-n", "git", "-f", "key", "signed"],
    );
    let other: String = fs::read_to_string(at.join("signed.sig"))
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let forged = envelope.replace(&signatures[0], &other);
    assert_ne!(forged, envelope);
    let refused = verify(forged.as_bytes(), &trusted).unwrap_err();
    assert!(matches!(refused, Error::Altered(_)), "{refused}");
}

#[test]
fn ssh_keys_that_are_of_no_use_are_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let Some(hidden) = ssh_key(at, "hidden", &["-t", "ed25519"], "swordfish") else {
        return;
    };
    let Some(ecdsa) = ssh_key(at, "ecdsa", &["-t", "ecdsa", "-b", "256"], "") else {
        return;
    };
    let problem = told(SigningKey::read(&hidden), &hidden);
    assert!(matches!(problem, KeyProblem::Encrypted(how) if how.contains("ssh-keygen -p")));
    let problem = told(
        SigningKey::read(&at.join("hidden.pub")),
        &at.join("hidden.pub"),
    );
    assert_eq!(problem, KeyProblem::Public);
    let problem = told(VerifyingKey::read_all(&hidden), &hidden);
    assert_eq!(problem, KeyProblem::Private);
    told(SigningKey::read(&ecdsa), &ecdsa);
    let problem = told(
        VerifyingKey::read_all(&at.join("ecdsa.pub")),
        &at.join("ecdsa.pub"),
    );
    assert_eq!(problem, KeyProblem::Kind("ecdsa-sha2-nistp256".to_owned()));

    // The unencrypted copy that the message tells of.
    fs::copy(&hidden, at.join("copy")).unwrap();
    let arguments = ["-q", "-p", "-P", "swordfish", "-N", "", "-f", "copy"];
    done(at, "ssh-keygen", &arguments);
    let copy = SigningKey::read(&at.join("copy")).unwrap();
    let public = VerifyingKey::read_all(&at.join("hidden.pub")).unwrap();
    assert_eq!(copy.public().keyid(), public[0].keyid());

    // A private key shows itself to nobody.
    let shown = format!("{copy:?}");
    assert_eq!(shown, format!("SigningKey({:?})", public[0].keyid()));
}

const LINE: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea nobody";

#[test]
fn a_file_of_public_keys_is_read_whole_or_not_at_all() {
    let keys = VerifyingKey::parse_all(format!("# ours\n\n{LINE}\n{LINE}\n").as_bytes()).unwrap();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0].comment(), "nobody");
    for wrong in [
        String::new(),
        "hello\n".to_owned(),
        LINE[..60].to_owned(),
        // Options would be promises that nobody keeps.
        format!("namespaces=\"git\" {LINE}"),
        format!("me@example.com {LINE}"),
        format!("{LINE}\nssh-rsa AAAAB3NzaC1yc2E= old\n"),
        format!("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n{LINE}\n"),
        "-----BEGIN PUBLIC KEY-----\nAAAA\n".to_owned(),
        format!("{LINE}\n").repeat(257),
    ] {
        assert!(
            VerifyingKey::parse_all(wrong.as_bytes()).is_err(),
            "{wrong}"
        );
    }
    assert!(VerifyingKey::parse_all(&[0xff, 0xfe]).is_err());
}

#[test]
fn files_are_bounded_and_errors_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.pem");
    fs::write(&large, vec![b'a'; 65 * 1024]).unwrap();
    let error = SigningKey::read(&large).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    let error = VerifyingKey::read_all(&large).unwrap_err();
    assert!(error.to_string().contains("large.pem"), "{error}");
    let missing = folder.path().join("missing.pem");
    let error = SigningKey::read(&missing).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
    assert!(error.to_string().contains("missing.pem"), "{error}");
    assert!(verify_file(&missing, &[]).is_err());
    assert!(Envelope::read(&missing).is_err());
}

#[test]
fn a_digest_is_64_lower_case_hex_digits() {
    assert!(Subject::new("evidence", "a".repeat(64)).is_ok());
    for wrong in [
        "a".repeat(63),
        "A".repeat(64),
        "g".repeat(64),
        String::new(),
    ] {
        let error = Subject::new("evidence", wrong).unwrap_err();
        assert!(error.to_string().contains("evidence"));
    }
}
