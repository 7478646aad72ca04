//! Why a fetch gave nothing, as closed codes.
//!
//! Pure. No word of a host, of git or of a submitter is in an error: neither an address, a name nor an object's id.

use thiserror::Error;

/// Why there is no snapshot, by whose fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GitError {
    /// The source itself: asking again changes nothing.
    #[error("{0}")]
    Source(#[from] SourceFault),
    /// The way to the host, or the host: asking again may help.
    #[error("the repository's host could not be heard: {0}")]
    Network(NetworkFault),
    /// This host, or the configuration.
    #[error("{0}")]
    Ours(OurFault),
}

impl GitError {
    /// Label of the error, for metrics and logs.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Source(fault) => fault.code(),
            Self::Network(fault) => fault.label(),
            Self::Ours(fault) => fault.label(),
        }
    }

    /// The error passes by itself.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Network(_))
    }
}

/// A fault of the source: a finding of its screening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SourceFault {
    /// The address is none that is read.
    #[error("the repository's address is refused: {0}")]
    Url(#[from] UrlFault),
    /// The host is not on the list.
    #[error("the repository's host is not on the list of hosts")]
    Host,
    /// No repository, none for everybody, an empty one, or no such path in it.
    #[error("there is no such repository or path, or not everybody may read it")]
    Missing,
    /// The host leads elsewhere.
    #[error("the repository has moved: give the address that its host names")]
    Redirect,
    /// A bound of bytes, of time in git, of a path or of references.
    #[error("the repository is too large")]
    TooLarge,
    /// More entries than are read.
    #[error("the repository has too many files")]
    TooManyFiles,
    /// What git itself, or what is made of it, finds broken or dangerous.
    #[error("the repository is malformed")]
    Malformed,
    /// The reference is none that the host names, names two, or is an object's id.
    #[error("the reference is no branch or tag of the repository")]
    Reference,
    /// More than one address, reference or path is given.
    #[error("more than one repository, reference or path is named")]
    Ambiguous,
}

impl SourceFault {
    /// Code of the finding.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Url(_) => "source-url",
            Self::Host => "source-host",
            Self::Missing => "source-missing",
            Self::Redirect => "source-redirect",
            Self::TooLarge => "source-too-large",
            Self::TooManyFiles => "source-too-many-files",
            Self::Malformed => "source-malformed",
            Self::Reference => "source-reference",
            Self::Ambiguous => "source-ambiguous",
        }
    }
}

/// What is wrong with an address or a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UrlFault {
    /// No URL at all, or one too long.
    #[error("it is no URL of at most 300 characters")]
    Syntax,
    /// Another scheme.
    #[error("it does not begin with https://")]
    Scheme,
    /// A user or a password.
    #[error("it names a user")]
    Userinfo,
    /// A port.
    #[error("it names a port")]
    Port,
    /// A query.
    #[error("it has a query")]
    Query,
    /// A fragment.
    #[error("it has a fragment")]
    Fragment,
    /// Characters that no repository needs, escaped ones, or letters that are not ASCII.
    #[error("it has a character that is not taken")]
    Characters,
    /// `..`, or a name that begins where none may.
    #[error("it has two dots, or a name that begins with a dash or ends with a dot")]
    Dots,
    /// Not exactly an owner and a repository.
    #[error("it is not HOST/OWNER/REPOSITORY")]
    Segments,
    /// The path in the repository.
    #[error("the path in the repository is not taken")]
    Path,
}

/// How a host could not be heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NetworkFault {
    /// The time is over.
    #[error("it takes too long")]
    Silent,
    /// No name, no connection, no TLS.
    #[error("no connection was made")]
    NoConnection,
    /// The connection broke, or the answer ended in the middle.
    #[error("the answer broke off")]
    Broken,
    /// A status that says "not now".
    #[error("it says that it cannot now")]
    Unavailable,
    /// The reference moved at each look.
    #[error("the reference moved while it was fetched")]
    Moved,
    /// git gave up for a reason that is not known here.
    #[error("git gave up for a reason that is not known here")]
    Unclear,
}

impl NetworkFault {
    /// Label of the fault, for metrics and logs.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Silent => "network-silent",
            Self::NoConnection => "network-no-connection",
            Self::Broken => "network-broken",
            Self::Unavailable => "network-unavailable",
            Self::Moved => "network-moved",
            Self::Unclear => "network-unclear",
        }
    }
}

/// A fault of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OurFault {
    /// The program that sets bounds cannot be started.
    #[error("prlimit cannot be started: install util-linux")]
    NoPrlimit,
    /// git cannot be started.
    #[error("git, or its part for https, cannot be started: install git")]
    NoGit,
    /// The bounds cannot be set.
    #[error("prlimit cannot set the bounds: are the unit's own (Limit…=) lower?")]
    Bounds,
    /// No process can be made.
    #[error("no process can be started: raise the unit's TasksMax, or the user's limit")]
    NoProcess,
    /// The directory for what is fetched.
    #[error("the directory for repositories cannot be used: it must exist and be this user's")]
    Directory,
    /// The disk.
    #[error("the disk of the directory for repositories is full")]
    DiskFull,
    /// The file of certificates.
    #[error("the file of certificates cannot be read")]
    CaFile,
    /// Somebody killed git.
    #[error("git was killed: is the memory of this host or unit exhausted?")]
    Killed,
}

impl OurFault {
    /// Label of the fault, for metrics and logs.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NoPrlimit => "no-prlimit",
            Self::NoGit => "no-git",
            Self::Bounds => "bounds",
            Self::NoProcess => "no-process",
            Self::Directory => "directory",
            Self::DiskFull => "disk-full",
            Self::CaFile => "ca-file",
            Self::Killed => "killed",
        }
    }
}
