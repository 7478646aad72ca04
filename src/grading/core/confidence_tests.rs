//! Tests of confidence.rs.

use proptest::prelude::*;

use super::*;

const PROMPT: &str = "Some people think that living in a big city is better for young people. Others believe that life in \
    the countryside is healthier and happier. Discuss both views and give your own opinion with reasons and examples.";

const ESSAY: &str = "Nowadays more and more young people move to a big city after school, because they hope to find a \
    good job there. I think that this choice has both advantages and problems.\n\n\
    On the one hand, a big city offers universities, hospitals and companies. My brother moved to Hanoi two years ago \
    and he could choose between three offers. There are also museums and concerts, so nobody is bored in the evening.\n\n\
    On the other hand, life in the countryside is quiet. The air is clean, neighbours help each other and houses are \
    cheap. When I visit my grandparents, I sleep better and I forget my phone.\n\n\
    In conclusion, I would live in a city while I am young, and I would return to the village with my own family later.";

const OTHER: &str = "Dear Anna,\nThank you for your letter about the summer course. I am glad that you liked our teacher. \
    You asked me which clothes you should bring. The weather in July is hot, so take light shirts and a hat. \
    We will swim every afternoon. Please write back soon.\nBest wishes,\nMinh";

const VIETNAMESE: &str = "Ngày nay ngày càng có nhiều bạn trẻ chuyển đến thành phố lớn sau khi học xong, vì họ hy vọng tìm \
    được việc làm tốt ở đó. Tôi nghĩ rằng lựa chọn này có cả lợi ích và khó khăn đối với người trẻ.";

const FRENCH: &str = "Aujourd'hui beaucoup de jeunes partent vivre dans une grande ville parce qu'ils esperent y trouver un \
    bon travail. Je pense que ce choix comporte des avantages et des inconvenients pour les jeunes et leurs familles.";

fn scores(tenths: &[u8]) -> Vec<Score> {
    tenths.iter().map(|tenths| Score::from_tenths(*tenths).expect("a score")).collect()
}

#[test]
fn missing_parts_are_shared_out() {
    let whole = Parts { consistency: Some(90), rules: Some(80), originality: Some(70), length: Some(60) };
    for (parts, expected) in [
        (whole, 77),                                        // 27 + 20 + 17.5 + 12 = 76.5
        (Parts { rules: None, length: None, ..whole }, 81), // 44.5 of 55
        (Parts { consistency: Some(40), ..Parts::default() }, 40),
        (Parts { consistency: Some(100), rules: Some(100), originality: Some(100), length: Some(100) }, 100),
        (Parts::default(), 0),
    ] {
        assert_eq!(parts.overall(), expected, "{parts:?}");
    }
    let none = Parts { consistency: Some(0), rules: Some(0), originality: Some(0), length: Some(0) };
    for (alone, weight) in [
        (Parts { consistency: Some(100), ..none }, 30),
        (Parts { rules: Some(100), ..none }, 25),
        (Parts { originality: Some(100), ..none }, 25),
        (Parts { length: Some(100), ..none }, 20),
    ] {
        assert_eq!(alone.overall(), weight, "{alone:?}");
    }
    assert_eq!(labelled(&Parts { rules: None, ..whole }).len(), 3);
}

#[test]
fn an_estimate_keeps_confidence_below_the_audit() {
    assert_eq!(
        (capped(100, true), capped(84, true), capped(60, true), capped(100, false)),
        (84, 84, 60, 100)
    );
    assert!(MOST_OF_ESTIMATED < crate::grading::core::review::Thresholds::default().audit);
}

#[test]
fn samples_that_differ_are_less_sure() {
    for (overall, expected) in [
        (&[70, 70, 70][..], Some(100)),
        (&[80, 80, 70], Some(91)), // σ 0.471
        (&[60, 80], Some(80)),     // σ 1
        (&[60, 70, 80], Some(84)), // σ 0.816
        (&[0, 100], Some(0)),      // σ 5
        (&[0, 0, 100], Some(6)),   // σ 4.714
        (&[70], None),
        (&[], None),
    ] {
        assert_eq!(consistency(&scores(overall)), expected, "{overall:?}");
    }
}

#[test]
fn a_letter_has_greeting_and_closing() {
    let body = "I am glad that you wrote. We swim here. The sun is hot. My dog is well. Come in July.";
    for (text, expected) in [
        (format!("Dear Tom,\n{body}\nBest wishes,\nMinh"), 100),
        (format!("Dear Tom, {body} See you soon, Minh"), 100),
        (
            format!(
                "Dear Tom,\n{body}\nBest wishes,\nMinh of the second class of the language school in Hue"
            ),
            100,
        ),
        (format!("{body}\nYours sincerely,\nMinh"), 75),
        (format!("Hi Tom!\n{body}\n"), 75),
        (format!("History is long. {body} Bestial"), 50),
        ("Hi Tom, come soon. Bye!".to_owned(), 75),
        (String::new(), 25),
    ] {
        assert_eq!(rules(&text, Task::Email), expected, "{text}");
    }
}

#[test]
fn an_essay_has_three_paragraphs() {
    let three = [
        "One is here. Two is here. Three is here.",
        "Four is here. Five is here.",
        "Six is. Seven is. Eight is.",
    ];
    for (text, expected) in [
        (three.join("\n\n"), 100),
        (three.join("\n"), 100),
        (three.join("\n \n\n"), 100),
        (three.join(" "), 50),
        (three.join("\n\n").replace("here.\n\nFour", "here.\nFour"), 75),
        (three.join("\n\n").replace("Eight is.", ""), 75),
    ] {
        assert_eq!(rules(&text, Task::Essay), expected, "{text}");
    }
    assert_eq!(rules(ESSAY, Task::Essay), 100);
}

#[test]
fn sentences_that_are_said_again_count_against_it() {
    let once =
        "A is here. B is here. C is here.\n\nD is here. E is here. F is here.\n\nG is here. H is here.";
    assert_eq!(rules(once, Task::Essay), 100);
    assert_eq!(rules(&once.replace("B is", "a IS").replace("D is", "A  is"), Task::Essay), 75);
    assert_eq!(rules(&once.replace(['B', 'C', 'D', 'E', 'F', 'G', 'H'], "A"), Task::Essay), 50);
}

#[test]
fn length_is_the_tasks() {
    for (words, email, essay) in [
        (0, 0, 0),
        (60, 50, 24),
        (119, 99, 48),
        (120, 100, 48),
        (240, 100, 96),
        (250, 96, 100),
        (500, 48, 100),
        (1000, 24, 50),
    ] {
        assert_eq!((length(words, Task::Email), length(words, Task::Essay)), (email, essay), "{words}");
    }
    assert_eq!(length(u32::MAX, Task::Essay), 0);
}

#[test]
fn a_work_of_ones_own_is_tolerated_and_a_copy_is_not() {
    assert_eq!(originality(ESSAY, [PROMPT, OTHER]), Some(100));
    assert_eq!(originality(ESSAY, [PROMPT, ESSAY]), Some(0));
    assert_eq!(originality(ESSAY, []), Some(100));
    assert_eq!(originality("… 。", [PROMPT]), None);
    let half = format!("{PROMPT} {OTHER}");
    let found = originality(&half, [PROMPT]).expect("it has words");
    assert!((1..100).contains(&found), "{found}");
    assert_eq!(likeness("planes", "planes"), 10_000);
    assert_eq!(
        likeness("planes of the people and of their", "zuk of the people and of their"),
        0,
        "common words"
    );
}

#[test]
fn a_copied_prompt_is_found() {
    assert!(is_copied(PROMPT, PROMPT));
    let edited = PROMPT.replace("big", "large").replace("healthier", "better").replace("own", "personal");
    assert!(
        is_copied(&edited.to_uppercase(), PROMPT),
        "no sentence of it stands there, and it is as good as the same"
    );
    assert!(!is_copied(ESSAY, PROMPT));
    assert!(!is_copied("", PROMPT) && !is_copied(ESSAY, ""));
    let one = "Discuss both views and give your own opinion with reasons and examples.";
    let own = "Elephants trumpet loudly whenever monsoon rain begins falling.";
    assert!(is_copied(&format!("{one} {own}"), PROMPT), "most words are the prompt's");
    assert!(!is_copied(&format!("{one} {own} {own} Zebras gallop."), PROMPT));
}

#[test]
fn languages_are_told_apart() {
    for (text, english) in [
        (ESSAY, true),
        (OTHER, true),
        (PROMPT, true),
        (VIETNAMESE, false),
        (FRENCH, false),
        ("Xin chào", true),
        ("", true),
    ] {
        assert_eq!(is_english(text), english, "{text}");
    }
    assert!(!is_english(&"今天天气很好".repeat(20)));
    assert!(!is_english(&format!("{OTHER} {VIETNAMESE}")), "half of it is not");
    assert!(!is_english(&"lorem ipsum dolor sit amet ".repeat(6)));
}

#[test]
fn words_are_counted_as_people_do() {
    assert_eq!(count_words("It's a well-known fact — isn’t it? 2 km."), 8);
    assert_eq!(count_words(" … "), 0);
}

proptest! {
    #[test]
    fn consistency_is_the_formula(tenths in prop::collection::vec(0_u8..=100, 2..6)) {
        let count = tenths.len() as f64;
        let mean = tenths.iter().map(|it| f64::from(*it)).sum::<f64>() / count;
        let variance = tenths.iter().map(|it| (f64::from(*it) - mean).powi(2)).sum::<f64>() / count;
        let exact = (100.0 - 2.0 * variance.sqrt()).max(0.0);
        let found = consistency(&scores(&tenths)).expect("of two or more");
        prop_assert!((f64::from(found) - exact).abs() <= 0.5 + 1e-9, "{found} {exact}");
    }

    #[test]
    fn nothing_leaves_its_range(text in "(\\PC|\n){0,120}", other in "(\\PC|\n){0,120}") {
        for task in Task::ALL {
            prop_assert!(rules(&text, *task) <= 100);
        }
        prop_assert!(originality(&text, [other.as_str()]).is_none_or(|part| part <= 100));
        prop_assert_eq!(likeness(&text, &other), likeness(&other, &text));
        prop_assert!(likeness(&text, &other) <= 10_000);
        let (_, _) = (is_english(&text), is_copied(&text, &other));
    }
}
