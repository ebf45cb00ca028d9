"""The case that a person's browser holds in advance: taken, kept, opened and let go of as the configuration says."""

from uuid import UUID

from demur.review import ahead
from demur.review.item import Claim
from demur.serve.web.review.service import VisibleCase
from demur.serve.web.review.site import ReviewSite


def claim_ahead(site: ReviewSite, name: str, *, model: str | None = None) -> Claim | None:
    """The case that this person will most likely be shown next, kept for them for `review.ahead_seconds`; None where
    nothing is free, or no case is to be claimed ahead."""
    review, scope = site.config.review, site.reviews.rights(name)[0]
    if review.ahead_seconds == 0:
        return None
    with site.database.transaction() as connection:
        return ahead.claim_ahead(
            connection, name, lease_seconds=review.ahead_seconds, scope=scope, order=review.order, model=model
        )


def renew_ahead(site: ReviewSite, name: str, case_id: UUID, token: int) -> Claim | None:
    """Keep a case that was claimed ahead for another while; None where the claim does not hold any more."""
    with site.database.transaction() as connection:
        return ahead.renew(connection, case_id, name, token=token, lease_seconds=site.config.review.ahead_seconds)


def open_ahead(site: ReviewSite, name: str, case_id: UUID, token: int) -> tuple[Claim, VisibleCase]:
    """The claim on a case that was claimed ahead and now is before this person: of full length, and noted as seen.
    Raises `ClaimLost`."""
    claim = site.reviews.heartbeat(name, case_id, token, None)
    return claim, site.reviews.see(name, case_id, through="page")


def let_go(site: ReviewSite, name: str, case_id: UUID) -> None:
    """Let go of a case that was claimed ahead and never shown."""
    with site.database.transaction() as connection:
        ahead.let_go(connection, name, case_id)
