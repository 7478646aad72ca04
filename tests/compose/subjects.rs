//! Subjects: where they come from, and that they arrive as they were written.

use maple_router::routing::compose::MAX_SUBJECT;
use maple_router::routing::submission::grading::Grade;
use serde_json::json;

use crate::fixtures::{Case, ID, field, read};

/// The subject as composed, after checking that a reader sees the same.
fn subject(case: &Case) -> String {
    let composed = case.composed().expect("a mail");
    let eml = String::from_utf8(composed.message.shown()).expect("ASCII");
    assert_eq!(read(&eml).subject(), Some(composed.subject.as_str()));
    composed.subject
}

fn default_subject() -> String {
    "Incident report: new submission, 4 June 2026, 14:02 (7f0c2b1e)".to_owned()
}

#[test]
fn the_first_template_that_says_something_wins() {
    let cases = [
        (Some("of the action"), Some("of the template"), "of the action".to_owned()),
        (None, Some("of the template"), "of the template".to_owned()),
        (Some(" \n"), Some("of the template"), "of the template".to_owned()),
        (Some("{{ fields.absent | default }}"), Some("of the template"), default_subject()),
        (None, Some(""), default_subject()),
        (None, None, default_subject()),
    ];
    for (own, pinned, expected) in cases {
        let mut case = Case::template(pinned, Some("text"), None);
        case.action.subject_template = own.map(ToOwned::to_owned);
        assert_eq!(subject(&case), expected);
    }
}

#[test]
fn variables() {
    let cases = [
        ("{{ submission.id }}", ID.to_string()),
        ("{{ submission.created_at }}", "Thursday 4 June 2026, 14:02 (UTC)".to_owned()),
        ("{{ form.id }}: {{ form.name }}", "incident-report: Incident report".to_owned()),
        ("{{ fields.name }} & <co>", "Ann Lee & <co>".to_owned()),
        ("x{{ fields.absent | d }}{{ fields.absent.deeper | default('-') | upper }}y", "x-y".to_owned()),
        ("{{ fields['two words'] }}", "yes".to_owned()),
        ("{{ fields.many }}", "one, two".to_owned()),
        (
            "{% for key, value in fields|items %}{{ key }}={{ value }};{% endfor %}",
            "name=Ann Lee;two words=yes;many=one, two;".to_owned(),
        ),
        ("{{ fields | length }}", "3".to_owned()),
        ("{{ fields.name | upper | replace('LEE', 'L.') }}", "ANN L.".to_owned()),
        ("{% if fields.name is defined %}a{% endif %}{% if fields.absent %}b{% endif %}", "a".to_owned()),
    ];
    for (template, expected) in cases {
        let mut case = Case::with_subject(template);
        case.fields = vec![
            field("many", "two", 4),
            field("two words", "yes", 2),
            field("name", "Ann Lee", 1),
            field("many", "one", 3),
        ];
        assert_eq!(subject(&case), expected, "{template}");
    }
}

/// A missing field that the form's owner has not thought of is seen by readers; one that he has thought of is not.
#[test]
fn a_name_without_a_value_is_a_gap_that_readers_see() {
    let cases: [(&str, &str, &[&str]); 14] = [
        ("a {{ fields.phone }} b", "a [missing: phone] b", &["phone"]),
        ("{{ fields['two words'] | upper | trim }}", "[missing: two words]", &["two words"]),
        ("{{ fields.name ~ ', ' ~ fields.town }}", "Ann Lee, [missing: town]", &["town"]),
        ("{{ fields.town }} {{ fields.town }}", "[missing: town] [missing: town]", &["town"]),
        ("{{ [fields.name, fields.town] | join(' of ') }}", "Ann Lee of [missing: town]", &["town"]),
        ("{{ 'from %s' | format(fields.town) }}", "from [missing: town]", &["town"]),
        ("{{ form.nmae }}{{ nothing }}", "[missing: form.nmae][missing: nothing]", &["form.nmae", "nothing"]),
        ("{% set t = fields.town %}{{ t }}", "[missing: t]", &["t"]),
        ("{{ fields.town or fields.name }}", "Ann Lee", &[]),
        ("{{ fields.town or fields.land }}", "[missing: land]", &["land"]),
        ("{{ fields.town | default('nowhere') }}", "nowhere", &[]),
        ("{{ fields.town | d(fields.land) }}", "[missing: land]", &["land"]),
        ("{% if fields.town %}{{ fields.town }}{% else %}none{% endif %}", "none", &[]),
        ("{{ fields.town if fields.town else 'none' }}{{ fields.empty }}", "none", &[]),
    ];
    for (template, expected, missing) in cases {
        let mut case = Case::with_subject(template);
        case.fields.push(field("empty", "", 3));
        assert_eq!(subject(&case), expected, "{template}");
        assert_eq!(case.composed().expect("a mail").missing, missing, "{template}");
    }
}

/// A grade is there or it is not; what it leaves open is a gap, and what is told of the work is escaped like what was entered.
#[test]
fn a_grade_is_shown_where_there_is_one() {
    let result = json!({
        "overallScore": 7.0, "band": "B2", "reviewPriority": null,
        "criteriaScores": [{"criterion": "lexical_resource", "score": 6.5, "feedback": "a < b\r\nBcc: x@example.org"}],
        "feedback": {"strengths": ["clear"], "weaknesses": [], "suggestions": []},
    });
    let told = "{% if grading %}{{ grading.overallScore }} {{ grading.band }}{% else %}ungraded{% endif %}";
    let each =
        "{% for c in grading.criteriaScores %}{{ c.criterion }} {{ c.score }} {{ c.feedback }}{% endfor %}";
    for (template, graded, ungraded, gaps) in [
        (told, "7.0 B2", "ungraded", [0, 0]),
        (each, "lexical_resource 6.5 a < b Bcc: x@example.org", "", [0, 0]),
        (
            "{{ grading.feedback.strengths | first }}",
            "clear",
            "[missing: grading.feedback.strengths]",
            [0, 1],
        ),
        (
            "{{ grading.reviewPriority }}",
            "[missing: grading.reviewPriority]",
            "[missing: grading.reviewPriority]",
            [1, 1],
        ),
    ] {
        let without = Case::with_subject(&format!("s {template}"));
        let with = Case { grade: Grade::of(result.clone()), ..without.clone() };
        for (case, expected, gaps) in [(with, graded, gaps[0]), (without, ungraded, gaps[1])] {
            assert_eq!(subject(&case), format!("s {expected}").trim(), "{template}");
            assert_eq!(case.composed().expect("a mail").missing.len(), gaps, "{template}");
        }
    }
    let html = format!("<p>{each}</p>");
    let shown = Case { grade: Grade::of(result), ..Case::template(Some("s"), Some("t"), Some(&html)) }.eml();
    let mut head = shown.lines().take_while(|line| !line.is_empty());
    assert!(shown.contains("a &lt; b") && !head.any(|line| line.starts_with("Bcc")), "{shown}");
}

#[test]
fn a_form_without_a_name_is_called_by_its_id() {
    for form_name in [None, Some(" \u{202E}".to_owned())] {
        let case = Case { form_name, ..Case::default() };
        assert_eq!(subject(&case), "incident-report: new submission, 4 June 2026, 14:02 (7f0c2b1e)");
    }
}

#[test]
fn long_and_foreign_subjects_arrive_intact() {
    let texts = [
        "Überwachung ".repeat(60),
        "日本語の件名".repeat(100),
        "🥳".repeat(600),
        "x".repeat(900),
        "plain words, many of them ".repeat(30),
        "mixed ünd plain ".repeat(50),
        "looks encoded =?utf-8?q?=0D=0A?= =?x?".to_owned(),
        "a =?utf-8?b?QQ==?= =?utf-8?b?Qg==?= b".to_owned(),
    ];
    for text in texts {
        let mut case = Case::with_subject("{{ fields.text }}");
        case.fields = vec![field("text", &text, 1)];
        assert_eq!(subject(&case), text.trim());
    }
}

#[test]
fn endless_subjects_are_cut() {
    for text in ["x".repeat(10_000), "ü".repeat(10_000)] {
        let case = Case::with_subject(&text);
        let subject = subject(&case);
        assert_eq!(subject.chars().count(), MAX_SUBJECT);
        assert!(subject.ends_with('…'));
    }
}

#[test]
fn line_breaks_controls_and_direction_marks_stay_out() {
    let cases = [
        ("Hello\r\nBcc: victim@example.org", "Hello Bcc: victim@example.org"),
        ("Hello\r\n\r\n<script>", "Hello <script>"),
        ("nul\0 esc\u{1b}[31m \u{85}\u{2028}end", "nul esc [31m end"),
        ("safe \u{202E}gpj.exe\u{2069}", "safe gpj.exe"),
    ];
    for (value, expected) in cases {
        let mut case = Case::with_subject("{{ fields.text }}");
        case.fields = vec![field("text", value, 1)];
        assert_eq!(subject(&case), expected);
    }
}
