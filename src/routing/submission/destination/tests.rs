//! Tables of destinations, and the properties of every text.

use proptest::prelude::*;

use super::*;

/// Key and, where usable, name; the reason otherwise.
fn parsed(raw: &str) -> Vec<(String, Result<Option<String>, String>)> {
    parse(raw, 1, 50)
        .into_iter()
        .map(|target| {
            let what = match target.kind {
                TargetKind::Usable { name, .. } => Ok(name),
                TargetKind::Unusable { why, .. } => Err(why),
                TargetKind::None => Err("none".to_owned()),
                TargetKind::OverLimit { count } => Err(format!("limit {count}")),
            };
            (target.key, what)
        })
        .collect()
}

fn keys(raw: &str) -> Vec<String> {
    parse(raw, 1, 50).into_iter().map(|target| target.key).collect()
}

#[test]
fn usable_entries_and_their_names() {
    let cases: &[(&str, &str, Option<&str>)] = &[
        ("a@example.org", "1|a@example.org", None),
        ("  a@example.org \n", "1|a@example.org", None),
        ("Ann.Lee@EXAMPLE.Org", "1|Ann.Lee@example.org", None),
        ("<a@example.org>", "1|a@example.org", None),
        ("Ann Lee <a@example.org>", "1|a@example.org", Some("Ann Lee")),
        ("\"Lee, Ann; IT\" <a@example.org>", "1|a@example.org", Some("Lee, Ann; IT")),
        (r#""Ann \"A\" \\ Lee" <a@example.org>"#, "1|a@example.org", Some(r#"Ann "A" \ Lee"#)),
        ("Support (US) <a@example.org>", "1|a@example.org", Some("Support (US)")),
        ("Jürgen Groß <a@example.org>", "1|a@example.org", Some("Jürgen Groß")),
        ("\"x <y@z.org>\" <a@example.org>", "1|a@example.org", Some("x <y@z.org>")),
        ("A\0n\u{7}n\u{202E} <a@example.org>", "1|a@example.org", Some("Ann")),
        ("\"\" <a@example.org>", "1|a@example.org", None),
        ("a@localhost", "1|a@localhost", None),
        ("a@[192.0.2.1]", "1|a@[192.0.2.1]", None),
        ("a+tag/x=y@example.org", "1|a+tag/x=y@example.org", None),
        ("!none@example.org", "1|!none@example.org", None),
        ("a|b@example.org", "1|a|b@example.org", None),
        ("jürgen@example.org", "1|jürgen@example.org", None),
        ("a@Bücher.example", "1|a@xn--bcher-kva.example", None),
        ("\"a,b\"@example.org", "1|\"a,b\"@example.org", None),
    ];
    for (raw, key, name) in cases {
        assert_eq!(parsed(raw), [((*key).to_owned(), Ok(name.map(ToOwned::to_owned)))], "{raw:?}");
    }
}

#[test]
fn unusable_entries_say_why() {
    let long_local = format!("{}@example.org", "a".repeat(65));
    let long_domain = format!("a@{}.org", ["b".repeat(60).as_str(); 5].join("."));
    let long_total = format!("{}@{}.org", "a".repeat(64), ["b".repeat(60).as_str(); 4].join("."));
    let cases: &[(&str, &str)] = &[
        ("nobody", "has no @"),
        ("@example.org", "has nothing before the @"),
        ("a@", "has no valid domain after the @"),
        ("a@-x.org", "has no valid domain after the @"),
        ("a@x..org", "has no valid domain after the @"),
        ("a@x.org.", "has no valid domain after the @"),
        ("a@[300.1.1.1]", "has no valid domain after the @"),
        ("a@b@example.org", "is not an address"),
        (".a@example.org", "is not an address"),
        ("a b@example.org", "contains a space"),
        ("a@example.org b@example.org", "contains a space"),
        ("a\u{a0}b@example.org", "contains a space"),
        ("a\0@example.org", "contains a control character"),
        ("a\u{202E}@example.org", "contains a control character"),
        ("a@example.org\r\nBcc: x", "contains a line break"),
        ("\"A\r\nBcc: x@y.org\" <a@example.org>", "contains a line break"),
        ("<a@example.org", "angle brackets do not match"),
        ("a@example.org>", "angle brackets do not match"),
        ("<<a@example.org>>", "angle brackets do not match"),
        ("A <a@example.org> B", "something follows the address"),
        ("A <>", "there is no address"),
        ("\"A <a@example.org>", "a quotation mark is not closed"),
        (&long_local, "is too long before the @ (more than 64 octets)"),
        (&long_domain, "has no valid domain after the @"),
        (&long_total, "is too long (more than 254 octets)"),
    ];
    for (raw, why) in cases {
        assert_eq!(parsed(raw), [("1|!1".to_owned(), Err((*why).to_owned()))], "{raw:?}");
    }
}

#[test]
fn lists_keep_order_drop_duplicates_and_number_the_unusable() {
    assert_eq!(keys("a@x.org, b@x.org;c@x.org"), ["1|a@x.org", "1|b@x.org", "1|c@x.org"]);
    assert_eq!(keys(" ,; a@x.org,,;\n b@x.org;, "), ["1|a@x.org", "1|b@x.org"]);
    assert_eq!(keys("a@x.org, Ann <a@X.ORG>"), ["1|a@x.org"]);
    assert_eq!(keys("A@x.org, a@x.org"), ["1|A@x.org", "1|a@x.org"], "local parts may differ by case");
    assert_eq!(keys("bad, a@x.org, worse, bad, b@x.org"), ["1|!1", "1|a@x.org", "1|!2", "1|b@x.org"]);
    assert_eq!(keys("\"Lee <a@x.org>, b@x.org; c@x.org"), ["1|!1", "1|b@x.org", "1|c@x.org"]);
    assert_eq!(keys("<a@x.org, b@x.org"), ["1|!1", "1|b@x.org"]);
}

#[test]
fn nobody_and_too_many() {
    for raw in ["", " ", ",;,", "\n\t"] {
        assert_eq!(parse(raw, 7, 50), [Target { key: "7|!none".to_owned(), kind: TargetKind::None }]);
    }
    let three = "a@x.org, b@x.org, bad, a@X.org";
    assert_eq!(parse(three, 7, 3).len(), 3);
    assert_eq!(
        parse(three, 7, 2),
        [Target { key: "7|!limit".to_owned(), kind: TargetKind::OverLimit { count: 3 } }]
    );
}

#[test]
fn keys_read_back() {
    for (key, order, address, domain) in [
        ("1|a@example.org", Some(1), Some("a@example.org"), Some("example.org")),
        ("-3|a|b@example.org", Some(-3), Some("a|b@example.org"), Some("example.org")),
        ("2|!1", Some(2), None, None),
        ("2|!none", Some(2), None, None),
        ("2|!limit", Some(2), None, None),
        ("2|!none@x.org", Some(2), Some("!none@x.org"), Some("x.org")),
        ("2|", Some(2), None, None),
        ("nonsense", None, None, None),
    ] {
        assert_eq!((order_of(key), address_of(key), domain_of(key)), (order, address, domain), "{key}");
    }
    assert_eq!(order_of(&bare_key(4)), Some(4));
}

#[test]
fn allowed_domains_are_exact() {
    let list = ["Example.org".to_owned(), " bücher.example".to_owned()];
    assert!(allowed("a@anywhere.net", &[]));
    assert!(allowed("a@example.ORG", &list));
    assert!(allowed("a@xn--bcher-kva.example", &list));
    assert!(!allowed("a@sub.example.org", &list));
    assert!(!allowed("a@notexample.org", &list));
    assert!(!allowed("example.org", &list));
}

#[test]
fn a_recipient_is_the_address_or_the_text_that_was_not_usable() {
    let destination = "a@Example.org, bad one, worse";
    let named = |domain: Option<&str>, plain: &str| Recipient {
        domain: domain.map(ToOwned::to_owned),
        plain: plain.to_owned(),
    };
    assert_eq!(recipient("1|a@example.org", destination), named(Some("example.org"), "a@example.org"));
    assert_eq!(recipient("1|!2", destination), named(None, "worse"));
    assert_eq!(recipient("1|!limit", " a, b "), named(None, "a, b"));
    assert_eq!(recipient("1|!none", ""), named(None, ""));
}

proptest! {
    #[test]
    fn any_text_gives_distinct_stable_keys(raw in destination_text(), order: i32, max in 0_usize..6) {
        let targets = parse(&raw, order, max);
        prop_assert_eq!(&targets, &parse(&raw, order, max));
        prop_assert!(!targets.is_empty());
        let distinct: HashSet<&str> = targets.iter().map(|target| target.key.as_str()).collect();
        prop_assert_eq!(distinct.len(), targets.len());
        for target in &targets {
            prop_assert_eq!(order_of(&target.key), Some(order));
            let named = recipient(&target.key, &raw);
            prop_assert_eq!(named.domain.is_some(), address_of(&target.key).is_some());
            if let TargetKind::Usable { address, name } = &target.kind {
                prop_assert_eq!(address_of(&target.key), Some(address.as_str()));
                prop_assert!(address.parse::<lettre::Address>().is_ok());
                prop_assert!(!address.chars().any(|c| c.is_control() || c.is_whitespace()));
                prop_assert!(!name.iter().flat_map(|name| name.chars()).any(char::is_control));
                // A printed address reads back as the same one.
                prop_assert_eq!(parse(address, order, 1), vec![Target {
                    key: target.key.clone(),
                    kind: TargetKind::Usable { address: address.clone(), name: None },
                }]);
            }
        }
    }
}

/// Texts made of the separators and special characters, and arbitrary ones.
fn destination_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("a@x.org".to_owned()),
        Just("B@X.org".to_owned()),
        Just("ü@ü.org".to_owned()),
        Just("Name ".to_owned()),
        "[,;<>\"\\\\@ \t.|!]",
        "[\r\n\0\u{202e}\u{7f}]",
        ".",
        any::<char>().prop_map(String::from),
    ];
    prop_oneof![proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat()), any::<String>()]
}
