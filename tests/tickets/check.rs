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
