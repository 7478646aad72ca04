//! A browser without a mouse: keys go to whatever has the focus, as they do under a person's hands.

use anyhow::{Context as _, Result, bail};
use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::key::Key as Code;

use super::{Browser, Command};

/// Longest way of [`Browser::tab_to`], in steps.
const STEPS: usize = 200;

/// A key, or two at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// To the next.
    Tab,
    /// Shift and Tab: to the one before.
    BackTab,
    /// Follows a link, presses a button, sends a form.
    Enter,
    /// Presses a button, ticks a box.
    Space,
    /// Closes what is open.
    Escape,
    /// Arrow.
    Up,
    /// Arrow.
    Down,
    /// Arrow.
    Left,
    /// Arrow.
    Right,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// Takes a letter back.
    Backspace,
    /// A letter.
    Letter(char),
}

impl Key {
    /// What is held meanwhile, and what is struck.
    fn code(self) -> (Option<char>, char) {
        let struck = |code: Code| (None, char::from(code));
        match self {
            Self::Tab => struck(Code::Tab),
            Self::BackTab => (Some(char::from(Code::Shift)), char::from(Code::Tab)),
            Self::Enter => struck(Code::Enter),
            Self::Space => (None, ' '),
            Self::Escape => struck(Code::Escape),
            Self::Up => struck(Code::Up),
            Self::Down => struck(Code::Down),
            Self::Left => struck(Code::Left),
            Self::Right => struck(Code::Right),
            Self::Home => struck(Code::Home),
            Self::End => struck(Code::End),
            Self::Backspace => struck(Code::Backspace),
            Self::Letter('\n') => struck(Code::Enter),
            Self::Letter(letter) => (None, letter),
        }
    }
}

impl Browser {
    /// Strikes keys, one after the other.
    ///
    /// # Errors
    /// The page is gone.
    pub async fn press(&self, keys: &[Key]) -> Result<()> {
        let mut actions = KeyActions::new("keyboard".to_owned());
        for (held, value) in keys.iter().map(|key| key.code()) {
            if let Some(value) = held {
                actions = actions.then(KeyAction::Down { value });
            }
            actions = actions.then(KeyAction::Down { value }).then(KeyAction::Up { value });
            if let Some(value) = held {
                actions = actions.then(KeyAction::Up { value });
            }
        }
        self.client.perform_actions(actions).await.with_context(|| format!("pressing {keys:?}"))
    }

    /// Types a text where the focus is; a new line is the Enter key.
    ///
    /// # Errors
    /// The page is gone.
    pub async fn type_text(&self, text: &str) -> Result<()> {
        self.press(&text.chars().map(Key::Letter).collect::<Vec<_>>()).await
    }

    /// What has the focus, by the name that a screen reader says (its accessible name); without one, its id, and without
    /// that, its element. `body` where nothing has it.
    ///
    /// # Errors
    /// The page is gone.
    pub async fn focused(&self) -> Result<String> {
        let element = self.client.active_element().await.context("asking what has the focus")?;
        let tag = element.tag_name().await?;
        if tag == "body" || tag == "html" {
            return Ok("body".to_owned());
        }
        let path = format!("element/{}/computedlabel", element.element_id());
        let name = self.client.issue_cmd(Command::get(path)).await.context("asking for a name")?;
        let name = name.as_str().unwrap_or_default().trim().to_owned();
        if !name.is_empty() {
            return Ok(name);
        }
        Ok(element.attr("id").await?.filter(|id| !id.is_empty()).unwrap_or(tag))
    }

    /// Presses Tab until what has this name ([`Browser::focused`]) has the focus.
    ///
    /// # Errors
    /// Nothing that Tab leads to has that name; says what it leads to.
    pub async fn tab_to(&self, name: &str) -> Result<()> {
        let mut passed: Vec<String> = Vec::new();
        for _ in 0..STEPS {
            self.press(&[Key::Tab]).await?;
            let focused = self.focused().await?;
            if focused == name {
                return Ok(());
            }
            // Past the last one comes the page itself, and after it the first one again.
            if focused == "body" && passed.iter().any(|name| name == "body") {
                break;
            }
            passed.push(focused);
        }
        bail!("Tab does not lead to {name:?}, but to {passed:?}. {}", self.page().await)
    }
}
