//! What a person does: with a mouse, with nothing but a keyboard, without JavaScript, in two tabs.

use std::time::Duration;

use devkit::browser::{Browser, Key, Options};

use crate::site::Site;

#[tokio::test]
async fn a_mouse_reads_fills_and_sends() {
    let (site, browser) = (Site::start().await, Browser::start().await.unwrap());
    browser.open(&site.at("/")).await.unwrap();
    assert_eq!(browser.title().await.unwrap(), "Parcels");
    assert_eq!(browser.text("h1").await.unwrap(), "Parcels");
    assert_eq!(browser.text("#hidden").await.unwrap(), "", "what CSS hides is not read");
    browser.click("#mark").await.unwrap();
    browser.wait_for_text("#marked", "Marked.").await.unwrap();
    browser.fill("#reason", "overwritten").await.unwrap();
    let reason = "größer \u{1f4e6} \u{e000} \u{202e}txt";
    browser.fill("#reason", reason).await.unwrap();
    assert_eq!(browser.value("#reason").await.unwrap(), reason);
    browser.choose("#kind", "Letter").await.unwrap();
    browser.click("#urgent").await.unwrap();
    browser.click("#send").await.unwrap();
    assert_eq!(browser.text("#sent").await.unwrap(), format!("{reason}, l, yes"));
    assert_eq!(browser.count("#sent").await.unwrap(), 1);
    assert_eq!(browser.texts(".none").await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_keyboard_alone_gets_everywhere() {
    let (site, browser) = (Site::start().await, Browser::start().await.unwrap());
    browser.open(&site.at("/")).await.unwrap();
    assert_eq!(browser.focused().await.unwrap(), "body");
    browser.press(&[Key::Tab]).await.unwrap();
    assert_eq!(browser.focused().await.unwrap(), "Second page");
    browser.press(&[Key::Tab]).await.unwrap();
    assert_eq!(browser.focused().await.unwrap(), "Reason", "a field has the name of its label");
    browser.press(&[Key::BackTab]).await.unwrap();
    assert_eq!(browser.focused().await.unwrap(), "Second page");
    browser.tab_to("Reason").await.unwrap();
    browser.type_text("Größx").await.unwrap();
    browser.press(&[Key::Backspace, Key::Letter('e'), Key::Home, Key::Letter('+')]).await.unwrap();
    browser.tab_to("Kind").await.unwrap();
    browser.press(&[Key::Down]).await.unwrap();
    browser.tab_to("Urgent").await.unwrap();
    browser.press(&[Key::Space]).await.unwrap();
    browser.tab_to("Mark it").await.unwrap();
    browser.press(&[Key::Space]).await.unwrap();
    browser.wait_for_text("#marked", "Marked.").await.unwrap();
    browser.tab_to("More").await.unwrap();
    browser.press(&[Key::Enter]).await.unwrap();
    browser.wait_for("#more[open]").await.unwrap();
    browser.press(&[Key::Escape]).await.unwrap();
    browser.wait_for("#more:not([open])").await.unwrap();
    let lost = browser.tab_to("Nobody").await.unwrap_err().to_string();
    assert!(lost.contains("\"Reason\"") && lost.contains("\"Mark it\""), "{lost}");
    browser.tab_to("Send").await.unwrap();
    browser.press(&[Key::Enter]).await.unwrap();
    assert_eq!(browser.text("#sent").await.unwrap(), "+Größe, l, yes");
}

#[tokio::test]
async fn without_javascript_the_page_is_what_the_server_sent() {
    let (site, browser) = (Site::start().await, Browser::start().await.unwrap());
    browser.without_script(true).await.unwrap();
    browser.open(&site.at("/")).await.unwrap();
    assert_eq!(browser.text("#script").await.unwrap(), "No script ran.");
    let judgement = browser.axe().await.unwrap();
    assert_eq!(judgement.violations, []);
    assert_eq!(browser.text("#script").await.unwrap(), "No script ran.", "judging it changes nothing");
    browser.click("#mark").await.unwrap();
    browser.fill("#reason", "by hand").await.unwrap();
    assert_eq!(browser.text("#marked").await.unwrap(), "");
    browser.click("#send").await.unwrap();
    assert_eq!(browser.text("#sent").await.unwrap(), "by hand, b, -");
    browser.new_tab().await.unwrap();
    browser.open(&site.at("/")).await.unwrap();
    assert_eq!(browser.text("#script").await.unwrap(), "No script ran.", "in a new tab as well");
    browser.without_script(false).await.unwrap();
    browser.open(&site.at("/")).await.unwrap();
    assert_eq!(browser.text("#script").await.unwrap(), "A script ran.");
}

#[tokio::test]
async fn two_tabs_share_cookies_and_nothing_else() {
    let (site, browser) = (Site::start().await, Browser::start().await.unwrap());
    let first = browser.tab().await.unwrap();
    browser.open(&site.at("/cookie")).await.unwrap();
    let cookies = browser.cookies().await.unwrap();
    let [cookie] = cookies.as_slice() else { panic!("{cookies:?}") };
    assert_eq!(
        (cookie.name.as_str(), cookie.value.as_str(), cookie.path.as_str()),
        ("__Host-desk", "secret", "/")
    );
    assert!(cookie.http_only && cookie.secure && cookie.expiry.is_none(), "{cookie:?}");
    assert_eq!(cookie.same_site.as_deref(), Some("Lax"));
    let second = browser.new_tab().await.unwrap();
    assert_eq!(browser.tab().await.unwrap(), second);
    browser.open(&site.at("/second")).await.unwrap();
    assert_eq!(browser.cookies().await.unwrap(), cookies);
    browser.switch_tab(&first).await.unwrap();
    assert_eq!(browser.url().await.unwrap(), site.at("/cookie"));
    browser.forget_cookies().await.unwrap();
    assert_eq!(browser.cookies().await.unwrap(), []);
}

#[tokio::test]
async fn what_does_not_come_is_told_with_the_page_that_is_there() {
    let site = Site::start().await;
    let options = Options { patience: Duration::from_millis(300), ..Options::default() };
    let browser = Browser::start_with(&options).await.unwrap();
    browser.open(&site.at("/second")).await.unwrap();
    let missing = async || browser.wait_for("#never").await.unwrap_err().to_string();
    let untrue = async || {
        let looked = browser.wait_until("it flies", async || anyhow::bail!("no wings")).await;
        looked.unwrap_err().to_string()
    };
    let (missing, untrue) = (missing().await, untrue().await);
    for (error, what) in [(&missing, "#never"), (&untrue, "it flies")] {
        assert!(
            error.contains(what) && error.contains("/second") && error.contains("Second page"),
            "{error}"
        );
    }
    assert!(untrue.contains("no wings"), "{untrue}");
    browser.wait_until("it is there", async || Ok(browser.count("h1").await? == 1)).await.unwrap();
}

#[tokio::test]
async fn names_lead_nowhere_but_to_loopback() {
    let site = Site::start().await;
    let options = Options { loopback: vec!["rebound.example".to_owned()], ..Options::default() };
    let browser = Browser::start_with(&options).await.unwrap();
    for host in ["127.0.0.1", "localhost", "desk.localhost", "rebound.example"] {
        browser.open(&format!("http://{host}:{}/second", site.port())).await.unwrap();
        assert_eq!(browser.text("h1").await.unwrap(), "Second page", "{host}");
    }
    // The second is this machine, too, where nobody listens: asked, it would have refused.
    for host in ["other.example", "127.0.0.2"] {
        let nowhere = browser.open(&format!("http://{host}:{}/second", site.port())).await.unwrap_err();
        assert!(format!("{nowhere:#}").contains("ERR_NAME_NOT_RESOLVED"), "{nowhere:#}");
    }
}
