//! The paths of images, of their tags, and of what is reported about them.

use dues_projections::figureforge::moderation::FlagStatus;
use dues_projections::figureforge::report::ReportStatus;
use serde_json::json;

use super::shapes::{cents, name, second, tags};
use super::{IMAGE, List, One, REPORT, What, alters, changes, gives, lists, makes, marks, saves};
use crate::api::openapi::{Operation, any, flag, list, object, or_null, text, text_or_null, words};
use crate::api::places::Place;

pub(super) const IMAGES: &[Place<What>] = &[
    Place::get("/models/figureforge/images/{image_id}", What::One(One::Image), || gives("figureforge_get_image", "An image.", IMAGE.shape)),
    Place::put("/models/figureforge/images/{image_id}", makes("image.saved"), || {
        let optional = json!({
            "user_id": or_null(name()), "tags": or_null(tags()), "prompt_json": any(), "provider": text_or_null(), "provider_model_id": text_or_null(),
            "cost_cents": or_null(cents()), "favorited_count": or_null(cents()), "public": flag(), "private_gallery_ids": list(name()),
            "flag_status": or_null(words(FlagStatus::ALL.map(FlagStatus::as_str))), "created_at": or_null(second()),
        });
        let summary =
            "Saves an image. Tags, favorites and flag that are left out stay as they are; one that was purged does not come back.";
        saves("figureforge_save_image", summary, IMAGE, json!({"url": text()}), optional)
    }),
    Place::delete("/models/figureforge/images/{image_id}", changes("image.deleted"), || {
        marks("figureforge_delete_image", "Deletes an image; the row stays, and says when.", IMAGE)
    }),
    Place::post("/models/figureforge/images/{image_id}/restore", changes("image.restored"), || {
        marks("figureforge_restore_image", "Brings a deleted image back.", IMAGE)
    }),
    Place::post("/models/figureforge/images/{image_id}/purge", changes("image.purged"), || {
        marks("figureforge_purge_image", "Deletes an image for good.", IMAGE)
    }),
    Place::put("/models/figureforge/images/{image_id}/tags", changes("image.tagged"), || {
        alters("figureforge_tag_image", "Gives an image these tags, and no others.", IMAGE, json!({"tags": tags()}), json!({}))
    }),
    Place::put("/models/figureforge/images/{image_id}/favorites", changes("image.favorited"), || {
        alters("figureforge_favorite_image", "Says how many like an image.", IMAGE, json!({"favorited_count": cents()}), json!({}))
    }),
    Place::put("/models/figureforge/images/{image_id}/flag", changes("image.flagged"), || {
        let status = json!({"flag_status": words(FlagStatus::ALL.map(FlagStatus::as_str))});
        alters(
            "figureforge_flag_image",
            "The staff's word on whether an image may be seen; it settles all reports before it.",
            IMAGE,
            status,
            json!({}),
        )
    }),
    Place::get("/models/figureforge/images/{image_id}/url", What::One(One::Url), || {
        Operation::new("figureforge_sign_image_url", "A URL with which an image can be read for a while, public or not.").answer(
            200,
            "The URL. What is deleted, blocked or removed has none, and nothing has one where nobody can sign.",
            object(json!({"image_id": text(), "key": text(), "url": {"type": "string", "format": "uri"}, "expires_in": cents()})),
        )
    }),
    Place::get("/models/figureforge/tags/{tag}", What::List(List::Tag), || {
        lists("figureforge_list_images_by_tag", "The images with a tag that everybody may find.", "FigureforgeTagged")
    }),
];

pub(super) const REPORTS: &[Place<What>] = &[
    Place::get("/models/figureforge/reports", What::List(List::Reports), || {
        lists("figureforge_list_reports", "The reports in a state, the oldest first.", REPORT.shape).asked(
            "status",
            "The state.",
            words(ReportStatus::ALL.map(ReportStatus::as_str)),
        )
    }),
    Place::get("/models/figureforge/images/{image_id}/reports", What::List(List::ReportsOfImage), || {
        lists("figureforge_list_image_reports", "The reports of an image.", REPORT.shape)
    }),
    Place::get("/models/figureforge/images/{image_id}/reports/{report_id}", What::One(One::Report), || {
        gives("figureforge_get_report", "A report.", REPORT.shape)
    }),
    Place::put("/models/figureforge/images/{image_id}/reports/{report_id}", makes("report.filed"), || {
        let optional = json!({"reporter_id": or_null(name()), "created_at": or_null(second())});
        saves("figureforge_file_report", "Says what is wrong with an image.", REPORT, json!({"reason": text()}), optional)
    }),
    Place::delete("/models/figureforge/images/{image_id}/reports/{report_id}", changes("report.deleted"), || {
        marks("figureforge_delete_report", "Deletes a report; the row stays, and says when.", REPORT)
    }),
    Place::post("/models/figureforge/images/{image_id}/reports/{report_id}/review", changes("report.reviewed"), || {
        marks("figureforge_review_report", "Somebody is looking.", REPORT)
    }),
    Place::post("/models/figureforge/images/{image_id}/reports/{report_id}/dismiss", changes("report.dismissed"), || {
        marks("figureforge_dismiss_report", "There is nothing wrong with the image.", REPORT)
    }),
    Place::post("/models/figureforge/images/{image_id}/reports/{report_id}/uphold", changes("report.upheld"), || {
        marks("figureforge_uphold_report", "There is something wrong with the image, which is taken down. Final.", REPORT)
    }),
    Place::post("/models/figureforge/images/{image_id}/reports/{report_id}/restore", changes("report.restored"), || {
        marks("figureforge_restore_report", "Brings a deleted report back.", REPORT)
    }),
];
