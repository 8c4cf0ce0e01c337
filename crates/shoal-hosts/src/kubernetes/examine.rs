//! What does a cluster say about itself, as far as it lets us ask? It changes nothing there.

use super::connection::Connection;
use super::explain::{Failure, Trouble};
use super::request::{self, Selection};
use super::resource;
use futures_util::{StreamExt, stream};
use kube::api::PostParams;
use kube::core::Request;
use serde_json::{Value, json};
use shoal_core::kubernetes::checkup::{Facts, RIGHTS, Right};

const AT_ONCE: usize = 8;

impl Connection {
    /// `claims`: the volume claims to look at.
    pub fn examine(&self, claims: &[String]) -> Result<Facts, Failure> {
        self.examine_for(claims, &RIGHTS)
    }

    /// As `examine`, with the rights that somebody else needs; `pods/exec` is the part `exec` of pods.
    pub fn examine_for(&self, claims: &[String], rights: &[Right]) -> Result<Facts, Failure> {
        self.block_on(self.examining(claims, rights))
    }

    async fn examining(&self, claims: &[String], rights: &[Right]) -> Result<Facts, Failure> {
        let version = request::ask(self, self.client.apiserver_version()).await?.git_version;
        let saw_namespace = allowed(request::get(self, &resource::namespaces(), &self.namespace).await)?.is_some();
        let asking: Vec<_> = rights
            .iter()
            .map(|right| async move { self.may(*right).await.map(|may| (!may).then_some(*right)) })
            .collect();
        let answers: Vec<Result<_, Failure>> = stream::iter(asking).buffered(AT_ONCE).collect().await;
        let missing = answers.into_iter().filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
        let quotas = resource::of("v1", "resourcequotas", Some(&self.namespace));
        let quotas = allowed(request::list(self, &quotas, &Selection::default()).await)?.map(|(all, _)| all);
        let nodes = allowed(request::list(self, &resource::nodes(), &Selection::default()).await)?.map(|(all, _)| all);
        let of_claims = resource::of("v1", "persistentvolumeclaims", Some(&self.namespace));
        let mut seen = Some(Vec::new());
        for name in claims {
            let claim = allowed(request::get(self, &of_claims, name).await)?;
            seen = seen.zip(claim).map(|(mut seen, claim)| {
                seen.push((name.clone(), claim.unwrap_or_default()));
                seen
            });
        }
        let (server, namespace) = (self.server.clone(), self.namespace.clone());
        Ok(Facts { server, version, namespace, saw_namespace, missing, quotas, claims: seen, nodes })
    }

    /// Asks the server whether it would let us.
    async fn may(&self, (verb, group, resource): Right) -> Result<bool, Failure> {
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let mut attributes = json!({"namespace": self.namespace, "verb": verb, "group": group, "resource": resource});
        if !part.is_empty() {
            attributes["subresource"] = part.into();
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes},
        });
        let request = Request::new("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
        let request = request::built(request.create(&PostParams::default(), review.to_string().into_bytes()))?;
        let answer = request::ask(self, self.client.request::<Value>(request)).await?;
        Ok(answer["status"]["allowed"] == true)
    }
}

/// `None` where it may not be asked.
fn allowed<T>(answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(failure) if failure.trouble == Trouble::Forbidden => Ok(None),
        Err(failure) => Err(failure),
    }
}
