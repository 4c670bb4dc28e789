"""The data set: a page of rows at a time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query

from slalom_xai.serve import schema
from slalom_xai.serve.data import Dataset
from slalom_xai.serve.data.paging import OF_A_MODEL
from slalom_xai.serve.service import Problem, Service

Sort = Literal["row", "label", "prediction", "probability", "wrong", "fidelity"]


def router(service: Service) -> APIRouter:
    """The addresses."""
    routes = APIRouter(tags=["data"], responses=schema.problems(409))

    def dataset() -> Dataset:
        if service.dataset is None:
            raise Problem(404, "this server has no data set: start it with --data FILE")
        return service.dataset

    def fingerprint(model: str | None, *, needed: bool) -> str | None:
        if model is None:
            return None
        found: str | None = service.model(model).facts.get("fingerprint")
        if found is None and needed:
            raise Problem(503, f"the model {model} is being loaded: try again soon", 5)
        return found

    @routes.get("/api/data")
    def described() -> schema.DataSet:
        """What the data set is, and how far it has been read and predicted."""
        if service.dataset is None:
            return schema.DataSet(name=None)
        predicted = {
            name: service.dataset.predicted(model.facts["fingerprint"])
            for name, model in service.supervisor.models.items()
            if model.facts
        }
        return schema.DataSet(
            name=service.dataset.name,
            rows=service.dataset.rows,
            imported=service.dataset.imported,
            labels=service.dataset.labels,
            predicted=predicted,
            message=service.data_problem or service.dataset.message or None,
        )

    @routes.get("/api/data/rows")
    def rows(
        model: Annotated[str | None, Query(max_length=200)] = None,
        sort: Sort = "row",
        descending: bool = False,
        search: Annotated[str, Query(max_length=500)] = "",
        label: Annotated[str | None, Query(max_length=500)] = None,
        wrong: bool = False,
        after: Annotated[str | None, Query(max_length=2000)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> schema.DataRows:
        """A page of rows, sorted and filtered."""
        page = dataset().page(
            model=fingerprint(model, needed=wrong or sort in OF_A_MODEL),
            sort=sort,
            descending=descending,
            search=search,
            label=label,
            wrong=wrong,
            after=after,
            limit=limit,
        )
        return schema.DataRows(**asdict(page))

    @routes.get("/api/data/rows/{row}")
    def whole(row: Annotated[int, Path(ge=1, le=2**62)]) -> schema.DataText:
        """A row with its whole text."""
        found = dataset().row(row)
        if found is None:
            raise Problem(404, f"the data set has no row {row}")
        return schema.DataText(row=found.row, text=found.text, label=found.label)

    return routes
