//! `desk login` and `desk token`: credentials, each printed once.

use clap::builder::NonEmptyStringValueParser;
use clap::builder::PossibleValuesParser;
use jiff::Timestamp;
use serde::Serialize;

use super::super::{CliError, Context, Exit, operator, output};
use super::{Office, database};
use crate::config::DeskAuth;
use crate::desk::access::credential::{Credential, Kind};
use crate::desk::access::{Role, life};
use crate::desk::login::{PATH, own_path};
use crate::desk::store::credentials::NewCredential;
use crate::journal;
use crate::ops::rng::Rng;
use crate::ops::telemetry::EventName;
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;

/// Longest label of a token, in characters.
const LONGEST_LABEL: usize = 100;

/// Arguments of `desk login`.
#[derive(Debug, clap::Args)]
pub(super) struct Login {
    /// The user, as in [desk.users.NAME]
    #[arg(value_name = "NAME")]
    name: String,
    /// The page to see first, e.g. /queue
    #[arg(long, value_name = "PATH")]
    to: Option<String>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `desk token`.
#[derive(Debug, clap::Args)]
pub(super) struct Token {
    /// The user, as in [desk.users.NAME]
    #[arg(value_name = "NAME")]
    name: String,
    /// The highest role it gives: never more than the user's own
    #[arg(long, value_name = "ROLE", value_parser = PossibleValuesParser::new(Role::ALL.iter().map(|role| role.label())))]
    role_cap: String,
    /// Days for which it counts, at most 90
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(life::LONGEST_TOKEN)))]
    days: u32,
    /// What it is for; shown in lists
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    label: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Link {
    url: String,
    user: String,
    role: Role,
    expires_at: Timestamp,
}

#[derive(Debug, Serialize)]
struct Issued {
    token: String,
    id: String,
    user: String,
    role_cap: Role,
    label: String,
    expires_at: Timestamp,
}

/// Prints a link.
pub(super) async fn login(ctx: &Context, args: Login) -> Result<Exit, CliError> {
    let office = Office::open(ctx)?;
    if office.config.desk.auth == DeskAuth::Assertion {
        let problem =
            anyhow::anyhow!("the proxy before the desk says who somebody is (desk.auth = \"assertion\")");
        return Err(CliError::new(Exit::FoundWanting, problem).remedy(format!(
            "open {} and log in there; `desk token` makes tokens for programs",
            office.config.desk.origin
        )));
    }
    let user = office.user(&args.name)?;
    let credential = Credential::new(Kind::Link, &Rng::from_system());
    let (digest, label) = (office.key.digest(&credential), operator::actor(&ctx.env));
    let new = NewCredential {
        digest: &digest,
        kind: Kind::Link,
        user: &user.name,
        role_cap: None,
        label: &label,
        life: life::LINK,
    };
    let expires_at = office.credentials.make(new).await.map_err(database)?;
    journal!(
        warn,
        EventName::Override,
        verb = "desk login",
        actor = label,
        user = user.name,
        "{label} made a login link for {}",
        user.name
    );
    let to = own_path(args.to.as_deref());
    let wanted = if to == "/" {
        String::new()
    } else {
        format!("?{}", url::form_urlencoded::Serializer::new(String::new()).append_pair("to", &to).finish())
    };
    let url = format!("{}{PATH}{}{wanted}", office.config.desk.origin, credential.expose());
    let link = Link { url, user: user.name, role: user.role, expires_at };
    output::either(args.json, &link, || {
        format!("{}\ncounts once, until {}: {} ({})", link.url, at(link.expires_at), link.user, link.role)
    })?;
    Ok(Exit::Done)
}

/// Prints a token.
pub(super) async fn token(ctx: &Context, args: Token) -> Result<Exit, CliError> {
    let office = Office::open(ctx)?;
    let user = office.user(&args.name)?;
    let usage = |problem: String| CliError::new(Exit::Usage, anyhow::anyhow!("{problem}"));
    let life = life::token(args.days).map_err(usage)?;
    let role_cap =
        Role::parse(&args.role_cap).ok_or_else(|| usage(format!("{} is no role", args.role_cap)))?;
    let label = one_line(&args.label);
    if label.chars().count() > LONGEST_LABEL {
        return Err(usage(format!("a label has at most {LONGEST_LABEL} characters")));
    }
    let credential = Credential::new(Kind::Token, &Rng::from_system());
    let digest = office.key.digest(&credential);
    let new = NewCredential {
        digest: &digest,
        kind: Kind::Token,
        user: &user.name,
        role_cap: Some(role_cap),
        label: &label,
        life,
    };
    let expires_at = office.credentials.make(new).await.map_err(database)?;
    let actor = operator::actor(&ctx.env);
    journal!(
        warn,
        EventName::Override,
        verb = "desk token",
        actor,
        user = user.name,
        role = role_cap.label(),
        "{actor} made a token for {}",
        user.name
    );
    let token = credential.expose().to_owned();
    let issued = Issued { token, id: digest.hex(), user: user.name, role_cap, label, expires_at };
    output::either(args.json, &issued, || {
        format!(
            "{}\nshown once; for {} as {} at most, until {}. Programs send it as: Authorization: Bearer TOKEN",
            issued.token,
            issued.user,
            issued.role_cap.min(user.role),
            at(issued.expires_at)
        )
    })?;
    Ok(Exit::Done)
}
