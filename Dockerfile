# docker build -t hba . && docker run --rm --gpus all --ipc=host -v "$PWD:/work" hba auto photos
FROM python:3.12-slim
COPY . /src
RUN pip install --no-cache-dir '/src[tables,datasets,numba,onnx]' && rm -rf /src
WORKDIR /work
ENTRYPOINT ["hba"]
CMD ["auto"]
