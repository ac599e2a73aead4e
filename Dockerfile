# docker build -t hba . && docker run --rm --gpus all -v "$PWD:/work" hba search photos
FROM python:3.12-slim
COPY . /src
RUN pip install --no-cache-dir '/src[timm]' && rm -rf /src
WORKDIR /work
ENTRYPOINT ["hba"]
