//! Why a submission is kept, in words: the answers of `content.why_kept`, and of whoever asks for one that is locked. Pure.

/// The meaning of a word, and what to do about it.
#[must_use]
pub fn meaning(why: &str) -> &'static str {
    match why {
        "open" => "it has not ended",
        "held" => "a hold names it (maple-router hold list)",
        "review" => "somebody decides about it (maple-router review list)",
        "event" => "an event about it is not delivered (maple-router dlq list)",
        "damaged" => "its record cannot be read: a person has to look at it first",
        "untold" => "nobody was told of its failure or infection yet",
        "undelivered" => "a mail of it is in doubt, deferred, or came back and nobody was told yet",
        "uploading" => "a file of it is being brought (maple-router uploads list)",
        "claimed" => "it was claimed: it ends by itself, and can be erased then",
        "not_yet" => "its time has not come",
        "no_end" => "nobody has said how long it is kept (maple-router retention set)",
        "busy" => "somebody has it locked at this moment: try again",
        "purged" => "it is emptied already",
        _ => "for a reason that this version does not know",
    }
}
