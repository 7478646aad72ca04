//! The two pages that the desk's ground itself shows: a problem, and the login. Functions, so that whoever makes the pages makes
//! these as well; the ones here have no style.

use minijinja::HtmlEscape;

use super::access::Visitor;
use super::problem::Problem;
use crate::web::problem::ProblemKind as _;

/// Shows a problem to a person. Returns a whole document.
pub type ProblemPage = fn(&ProblemView<'_>) -> String;
/// Shows the one button that spends a login link. Returns a whole document.
pub type LoginPage = fn(&LoginView) -> String;

/// The values of a problem's page.
#[derive(Debug, Clone, Copy)]
pub struct ProblemView<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Who asks, where the login came so far.
    pub visitor: Option<&'a Visitor>,
    /// The page that was asked for; absent for a change.
    pub path: Option<&'a str>,
    /// What was sent with a change, so that it can be shown and sent again.
    pub sent: Option<&'a Sent>,
}

/// What a page's form has sent. It is shown to whoever sent it, and kept nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The path it was sent to.
    pub path: String,
    /// Its fields.
    pub fields: Vec<(String, String)>,
}

/// The values of the login page: a form with `method="post"`, this action, and the hidden field `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginView {
    /// The address that the form posts to.
    pub action: String,
    /// The page that is wanted afterwards; a path of our own.
    pub to: String,
}

/// The pages of the ground.
#[derive(Debug, Clone, Copy)]
pub struct Templates {
    /// A problem.
    pub problem: ProblemPage,
    /// The login.
    pub login: LoginPage,
}

impl Default for Templates {
    fn default() -> Self {
        Self { problem: plain_problem, login: plain_login }
    }
}

fn plain_problem(view: &ProblemView<'_>) -> String {
    let ProblemView { problem, visitor, .. } = *view;
    let who = visitor.map(|visitor| format!("<p>You are logged in as {}.</p>", HtmlEscape(&visitor.user)));
    let content = format!(
        "<p>{}</p><p>{}</p>{}",
        HtmlEscape(problem.detail()),
        HtmlEscape(problem.remedy()),
        who.unwrap_or_default()
    );
    document(problem.kind().title(), &content)
}

fn plain_login(view: &LoginView) -> String {
    let content = format!(
        "<form method=\"post\" action=\"{}\"><input type=\"hidden\" name=\"to\" value=\"{}\">\
         <p>This link logs you in once.</p><button>Log in</button></form>",
        HtmlEscape(&view.action),
        HtmlEscape(&view.to)
    );
    document("Log in to the review desk", &content)
}

fn document(title: &str, content: &str) -> String {
    let title = HtmlEscape(title);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title></head>\
         <body><main><h1>{title}</h1>{content}</main></body></html>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_text() {
        let hostile = "\"><script>alert(1)</script>";
        let problem = Problem::guard("reason", hostile);
        let problem =
            plain_problem(&ProblemView { problem: &problem, visitor: None, path: None, sent: None });
        let login = plain_login(&LoginView { action: hostile.to_owned(), to: hostile.to_owned() });
        for shown in [problem, login] {
            assert!(!shown.contains("<script>") && shown.contains("&lt;script&gt;"), "{shown}");
        }
    }
}
