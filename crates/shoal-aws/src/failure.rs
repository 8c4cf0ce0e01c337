//! What went wrong, in words that say what to do: the errors of AWS, explained.

use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use shoal_core::cluster::cloud::protocol::{Cause, Failure};

pub type Outcome<T> = Result<T, Failure>;

pub fn failure(cause: Cause, text: impl Into<String>, hint: impl Into<String>) -> Failure {
    let hint: String = hint.into();
    Failure { cause, text: text.into(), hint: (!hint.is_empty()).then_some(hint) }
}

pub fn wrong(text: impl Into<String>, hint: impl Into<String>) -> Failure {
    failure(Cause::Wrong, text, hint)
}

pub fn here(text: impl Into<String>) -> Failure {
    failure(Cause::Here, text, "")
}

/// An error of a call, with the code that AWS gave it, if AWS answered at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub code: String,
    pub message: String,
    /// AWS answered and said no: nothing was made. Otherwise nobody knows.
    pub answered: bool,
}

impl Said {
    pub fn of<E, R>(error: &SdkError<E, R>) -> Said
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: std::fmt::Debug,
    {
        let code = error.code().unwrap_or_default().to_string();
        let broke =
            ["", "InternalError", "InternalFailure", "InternalServerError", "ServiceUnavailable", "Unavailable"];
        let answered = matches!(error, SdkError::ServiceError(_)) && !broke.contains(&code.as_str());
        let message = error.message().map_or_else(|| reasons(error), Into::into);
        Said { code, message, answered }
    }

    /// It is there already. Our names are nobody else's, so we made it, in a try whose answer was lost.
    pub fn is_there_already(&self) -> bool {
        self.code.ends_with(".Duplicate") || self.is(&["FileSystemAlreadyExists", "MountTargetConflict"])
    }

    pub fn is(&self, codes: &[&str]) -> bool {
        codes.contains(&self.code.as_str())
    }

    /// There is no such thing: what a removal wants to hear.
    pub fn is_not_found(&self) -> bool {
        self.code.ends_with(".NotFound")
            || self.code.ends_with("NotFound")
            || self.is(&["InvalidPlacementGroup.Unknown", "InvalidAMIID.Unavailable"])
    }

    /// Something still uses it: worth another try.
    pub fn is_in_use(&self) -> bool {
        self.is(&["DependencyViolation", "InvalidPlacementGroup.InUse", "FileSystemInUse", "InvalidGroup.InUse"])
    }

    /// This zone has none to give; another may.
    pub fn is_capacity(&self) -> bool {
        self.is(&[
            "InsufficientInstanceCapacity",
            "InsufficientHostCapacity",
            "InsufficientReservedInstanceCapacity",
            "InsufficientCapacity",
            "SpotMaxPriceTooLow",
            "Unsupported",
            "InsufficientFreeAddressesInSubnet",
        ])
    }

    pub fn is_throttling(&self) -> bool {
        self.is(&["RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException"])
    }

    /// `what`: what was being done, as in "cannot {what}".
    pub fn explained(&self, what: &str) -> Failure {
        let (cause, hint) = self.cause();
        let code = if self.code.is_empty() { String::new() } else { format!(" ({})", self.code) };
        failure(cause, format!("cannot {what}: {}{code}", self.message.trim_end_matches('.')), hint)
    }

    fn cause(&self) -> (Cause, String) {
        let code = self.code.as_str();
        if self.is_throttling() {
            let hint = "AWS limits how often an account may ask; all retries with growing pauses were refused. Try again in some minutes";
            return (Cause::Throttled, hint.into());
        }
        if self.is_capacity() {
            return (Cause::Capacity, "name more zones in `availability_zone`, another InstanceType, or wait".into());
        }
        match code {
            "UnauthorizedOperation" | "AccessDenied" | "AccessDeniedException" => (
                Cause::Credentials,
                "these credentials may not do this; docs/guides/a-cluster-on-aws.md has the policy that is needed".into(),
            ),
            "AuthFailure" | "InvalidClientTokenId" | "SignatureDoesNotMatch" | "UnrecognizedClientException" => {
                (Cause::Credentials, "AWS does not know these credentials; check them with `aws sts get-caller-identity`".into())
            }
            "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" => (
                Cause::Credentials,
                "they have expired (or this machine's clock is wrong); sign in again, such as `aws sso login`".into(),
            ),
            "OptInRequired" => {
                (Cause::Credentials, "the account has not opted in to this region or product; do so in the AWS console".into())
            }
            "OperationNotPermitted" => (Cause::InTheWay, String::new()),
            "PendingVerification" => (Cause::Quota, "AWS is still checking the account; try again later".into()),
            code if code.ends_with("LimitExceeded") || code == "MaxSpotInstanceCountExceeded" => (
                Cause::Quota,
                "this is a limit of the account: ask for more under Service Quotas in the AWS console, or ask for fewer or smaller nodes"
                    .into(),
            ),
            "InvalidAMIID.NotFound" | "InvalidAMIID.Malformed" => {
                (Cause::Wrong, "images belong to one region; check ImageId and provider.region".into())
            }
            "" if !self.answered => {
                (Cause::Cloud, "AWS did not answer as it should; check the network, a proxy, and AWS_ENDPOINT_URL".into())
            }
            _ => (Cause::Cloud, String::new()),
        }
    }
}

/// From the outermost to the innermost, each said once.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !said.iter().any(|before| before.contains(&text)) {
            said.push(text);
        }
        next = error.source();
    }
    said.join(": ")
}

/// The id of what was to be made: as the answer says it, or as `look` finds it when a try before has made it and its answer was lost.
pub async fn id_of<T, E, R>(
    answer: Result<T, SdkError<E, R>>,
    id: impl FnOnce(&T) -> Option<&str>,
    look: impl AsyncFnOnce() -> Outcome<Option<String>>,
    what: impl Into<String>,
) -> Outcome<String>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug,
{
    match answer {
        Ok(made) => Ok(id(&made).unwrap_or_default().to_string()),
        Err(error) => {
            let said = Said::of(&error);
            let found = if said.is_there_already() { look().await? } else { None };
            found.ok_or_else(|| said.explained(&what.into()))
        }
    }
}

/// For `map_err`.
pub fn cannot<E, R>(what: impl Into<String>) -> impl FnOnce(SdkError<E, R>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug,
{
    let what = what.into();
    move |error| Said::of(&error).explained(&what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_a_cause_and_something_to_do() {
        for (code, cause, hint) in [
            ("VcpuLimitExceeded", Cause::Quota, "Service Quotas"),
            ("InstanceLimitExceeded", Cause::Quota, "Service Quotas"),
            ("RequestLimitExceeded", Cause::Throttled, "minutes"),
            ("InsufficientInstanceCapacity", Cause::Capacity, "zones"),
            ("UnauthorizedOperation", Cause::Credentials, "policy"),
            ("AuthFailure", Cause::Credentials, "get-caller-identity"),
            ("ExpiredToken", Cause::Credentials, "sign in again"),
            ("InvalidAMIID.NotFound", Cause::Wrong, "region"),
            ("SomethingNew", Cause::Cloud, ""),
        ] {
            let said = Said { code: code.into(), message: "No.".into(), answered: true };
            let failure = said.explained("do it");
            assert_eq!((failure.cause, failure.text), (cause, format!("cannot do it: No ({code})")), "{code}");
            assert!(failure.hint.unwrap_or_default().contains(hint), "{code}");
        }
    }
}
