//! Line `happyfox` of `check`: what a form asks for in vain is named, and who does not answer is.

use devkit::forms::Form;

use crate::scene::Scene;

#[tokio::test]
async fn check_names_what_the_help_desk_lacks() {
    let scene = Scene::start("").await;
    let (level, said) = scene.check().await;
    assert_eq!(level, "ok", "{said}");
    scene.form(Form::new("private").ticket_in("Internal")).await;
    let (level, said) = scene.check().await;
    assert!(level == "warn" && said.contains("form private, action 1"), "{level}: {said}");
    scene.stop().await;

    let scene = Scene::start("[happyfox.forms.t.custom_fields]\n77 = \"submission.id\"\n").await;
    let (level, said) = scene.check().await;
    assert!(level == "warn" && said.contains("[happyfox.forms.t.custom_fields] 77"), "{level}: {said}");
    scene.desk.set_credentials("another", "pair");
    let (level, said) = scene.check().await;
    assert!(level == "fail" && said.contains("happyfox-api-key"), "{level}: {said}");
    assert!(!said.contains("another") && !said.contains(scene.desk.api_key()), "{said}");
    scene.desk.stop().await;
    let (level, said) = scene.check().await;
    assert!(level == "fail" && said.contains("happyfox.base_url"), "{level}: {said}");
    scene.stop().await;
}

/// What is set for a form that is not there has no effect, and nobody would notice.
#[tokio::test]
async fn sections_of_forms_that_are_not_there_are_named() {
    let sections = "[mail.forms.gone]\nattachments = \"link\"\n[happyfox.forms.T]\ncontact_name_field = \"x\"\n\
                    [happyfox.forms.t]\ncontact_name_field = \"name\"\n";
    let scene = Scene::start(sections).await;
    let (level, said) = scene.check_line("forms").await;
    assert_eq!(level, "warn", "{said}");
    assert!(said.contains("[mail.forms.gone], [happyfox.forms.T]"), "{said}");
    assert!(!said.contains("[happyfox.forms.t]"), "{said}");
    assert!(said.contains("take the section out"), "{said}");
    scene.stop().await;
}
