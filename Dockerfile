# The service alone: its stores are other containers (docker-compose.yml), so nothing is fetched at run time.
FROM python:3.13.1-slim-bookworm AS build
WORKDIR /source
RUN pip install --no-cache-dir build==1.6.1
COPY . .
RUN python -m build --wheel --outdir /dist

FROM python:3.13.1-slim-bookworm
COPY constraints.txt /build/constraints.txt
RUN --mount=type=bind,from=build,source=/dist,target=/dist \
    pip install --no-cache-dir --constraint /build/constraints.txt /dist/*.whl \
    && useradd --system --uid 10001 --create-home graphsvc \
    && install -d -o graphsvc -g graphsvc -m 0700 /var/lib/graphsvc /var/cache/graphsvc
USER graphsvc
ENV GRAPHSVC_STATE_DIR=/var/lib/graphsvc \
    GRAPHSVC_CACHE_DIR=/var/cache/graphsvc \
    PYTHONUNBUFFERED=1
VOLUME ["/var/lib/graphsvc"]
EXPOSE 50051
ENTRYPOINT ["graphsvc"]
CMD ["serve"]
